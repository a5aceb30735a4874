"""Serves chat clients of the OpenAI and the Anthropic protocols: sends their calls to a model server with memories
added, and keeps each conversation as a session.

- call: one request of a chat client. Most calls are turns; some are not, such as a request for a title.
- our text: the text of a turn that is added to the client's messages.
- upstream: the model server behind the proxy.
- path: the sequence of stored messages on one branch of a session.
- form: a message prepared for comparison.
- alignment: the pairing of a client's messages with the stored messages of a path.
"""
