"""What outlives a request: files, batches, and the runner that works batches off in the batch lane.

    jobs, objects, lines, prefix, wishes   pure: what a batch is, what is read, what is written
    outage                                 pure: when a lane that was down is asked again
    census                                 pure: how many batches and lines there are now
    blobs                                  the bytes of files, in a folder
    store, sql/, migrations/               the state, in a database
    desk                                   what the endpoints ask for
    validation, execution, assembly        before, during and after the lines
    pace, moves, runner                    how many lines may begin, a batch from state to state, the loops

Nothing here is imported before it is needed: the database's libraries come with the first file or batch.
"""
