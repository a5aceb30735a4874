"""Makes memory from the conversation: rolling summaries, turn summaries, events, narratives, threads and facts about
users.

A rolling summary stands for the messages that the history in the prompt no longer shows. Consolidation turns past turns
into turn summaries, events and narratives. `verbs` has the edits of memory by hand.
"""
