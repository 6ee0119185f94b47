"""What outlives a request: files, batches, and the runner that works batches off in the batch lane.

    jobs, objects, lines, prefix, pacing   pure: what a batch is, how a line is read, how many lines run at once
    blobs                                  the bytes of files, in a folder
    store, sql/, migrations/               the state, in a database
    desk                                   what the endpoints ask for
    validation, execution, assembly        before, during and after the lines
    signs, runner                          how the interactive lane does, and the loops

Nothing here is imported before it is needed: the database's libraries come with the first file or batch.
"""
