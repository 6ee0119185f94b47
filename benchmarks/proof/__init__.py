"""Proofs: each claim about speed is one command here, which anybody with vLLM can run.

    python -m benchmarks.proof.cpu STEP ...     real vLLM on the CPU with a small real model
    python -m benchmarks.proof.gpu              one or two cards, all steps or those of --steps
    python -m benchmarks.proof.plot FILE ...    charts of what they wrote

    process, engine, gateway    what is started, and stopped whatever happens
    measure, background         the load, by `app.bench`
    book, tables                results as they come, and as Markdown
    steps, sessions             what is measured, and on which engine
    batches, ordeal             a batch beside chat, and through restarts; offline, watch, postgres are what they need
    arrivals, proxy, baseline   events as a socket gets them, nginx, `transformers serve`

Nothing waits without a limit, and every figure is written as soon as it is there.
"""
