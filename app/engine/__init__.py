"""Engines, before they run: what a vLLM understands, what a profile becomes, and what fits a machine's memory.

catalogue    the options of a vLLM that is not installed here, and what became of options that are gone
probe        runs in vLLM's own Python: its parser is asked, or written down as a catalogue
line         a command line, cut into its options
parsers      the two ways to ask a parser: the real one, and one built from the catalogue
rules        what the parser accepts and a start dies of
check        a command line, option by option, with all of these
render       a profile as a command, a compose service, environment variables or a lane's settings
model        where a model is, and the size of its weights
shape, kv    a model's weights and the KV cache of a sequence, in bytes
gpus         the memory of the cards of this machine
advise       which engines fit, and how many sequences of which length
report       the words for it
"""
