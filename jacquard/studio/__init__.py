"""Serves the studio: pages for people, at the same address as the API of the service.

A page reads and writes only by the operations of `jacquard/remote/operations.py`, as every client does: the same
scopes, tenants, viewers and audits apply. The server renders the pages, and htmx replaces parts of a page in the browser.
`static/studio.js` does the work that neither the server nor htmx can do.

To add a room:

1. `NAME.py`: functions that take a `Visit` and return a response, and `ROOM`, which names their addresses.
2. `texts/NAME.toml`: its texts in English and Chinese, in the table `[NAME]`; `room.NAME` in `texts/shell.toml` is its name.
3. `templates/NAME.html` extends `shell.html`; a file that begins with `_` is a part of a page, which htmx asks for.
4. A row of `ROOMS` in `app.py`.
5. What the page needs and the API lacks: an operation in `jacquard/remote/operations.py`.
6. `tests/studio/test_NAME.py`: a walk in a browser, in both languages.

A reason, an error or a finding is recorded in English; `t.say(sentence)` gives it in the reader's language.

Templates have no script and no style, because the content policy forbids both. Widths are attributes of SVG, behaviour is in
`studio.js`. No template marks a text as safe.
"""
