"""Renders Jinja2 templates in a sandbox.

A template reads only the plain values that it is given. A template cannot change these values, reach anything else, or
run forever. Everything that `{{ }}` prints is escaped: a text becomes a one-line YAML scalar without XML markup. The
filters `yaml`, `text` and `attr` print a YAML block, prose or an attribute instead. Only text that this package has
escaped is printed unchanged. A template can include only files that were read from the template roots.

Filters and tests have limits and give the same result on every machine. The module `language` lists the filters and
tests that are taken from Jinja2. The other filters of Jinja2 are not offered, for one of these reasons:

- They format or repeat text without a bound: `center`, `format`, `indent`, `wordwrap`, `batch`, `slice`.
- They print values that have no text form: `pprint`, `tojson`, `xmlattr`.
- They bypass the escaping: `safe`, `escape`.
- They are random: `random`.

Only this module and `counting` import jinja2. This module must not import a stream, a planner or a store.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, cast

from jinja2 import Environment, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import (
    SecurityError,
    TemplateNotFound,
    TemplateRuntimeError,
    TemplateSyntaxError,
    UndefinedError,
)
from jinja2.filters import FILTERS
from jinja2.idtracking import VAR_LOAD_RESOLVE
from jinja2.loaders import BaseLoader
from jinja2.meta import find_referenced_templates
from jinja2.runtime import BlockReference, Context, LoopContext, Macro, StrictUndefined, TemplateReference
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS
from jinja2.utils import Cycler, Joiner, Namespace
from markupsafe import Markup

from jacquard.core.errors import TemplateError
from jacquard.core.quests import drop_usual_values, is_scalar, read_plain_value
from jacquard.templating.counting import COUNTING_FILTERS, count_work, find_refused_parts
from jacquard.templating.files import TemplateFile
from jacquard.templating.language import BUILTIN_FILTERS, LIST_METHODS, MAPPING_METHODS, TEXT_METHODS
from jacquard.templating.limits import (
    CALL_STEPS,
    OUTPUT_LIMIT_CHARS,
    LimitError,
    bounded_range,
    check_digits,
    check_number,
    check_power,
    check_size,
    check_stripped,
    limit_rendering,
    pay,
    pay_arguments,
    pay_for_value,
    spend,
)
from jacquard.templating.output_escaping import (
    PrintError,
    finalize_prompt,
    finalize_reply,
    join_texts,
    replace_text,
    show_attribute,
    show_limits,
    show_text,
    show_yaml,
    strip_mark,
    sum_numbers,
    wrap_function,
)
from jacquard.templating.syntax import Node, Syntax, locate_tokens

_OF_TEXT = frozenset({"capitalize", "lower", "string", "title", "trim", "truncate", "upper"})
_COMPARING = frozenset({"groupby", "max", "min", "sort", "unique"})

Function = Callable[..., Any]


def build_filters(engine: Mapping[str, Function]) -> dict[str, Function]:
    """Return the filters that every template can use, by name. `engine` contains all filters of the template engine by name."""
    own: dict[str, Function] = {
        "brief": drop_usual_values,
        "join": join_texts,
        "replace": replace_text,
        "sum": sum_numbers,
        "value": read_plain_value,
    }
    return {**{name: _filter(name, engine[name]) for name in BUILTIN_FILTERS}, **own}


def build_tests(engine: Mapping[str, Function]) -> dict[str, Function]:
    """Return the tests that every template can use after `is`, by name. `engine` contains the tests of the template engine."""
    tests = {name: wrap_function(test) for name, test in engine.items()}
    tests |= {name: wrap_function(_require_text(engine[name])) for name in ("lower", "upper")}
    return {**tests, "sameas": wrap_function(_is_same)}


def _filter(name: str, function: Function) -> Function:
    if name in _OF_TEXT:
        function = _require_text(function)
    if name in _CHECKS:
        function = _add_check(function, _CHECKS[name])
    return wrap_function(function, compares=name in _COMPARING)


def _require_text(function: Function) -> Function:
    """Wrap a function so that it refuses values whose only text form is their address in memory."""
    own = 1 if hasattr(function, "jinja_pass_arg") else 0

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        _check_plain(args[own])
        return function(*args, **kwargs)

    return run


def _add_check(function: Function, check: Function) -> Function:
    @functools.wraps(function)
    def run(value: Any, *args: Any, **kwargs: Any) -> Any:
        check(*args, **kwargs)
        result = function(value, *args, **kwargs)
        if not isinstance(value, int):
            check_number(result)
        return result

    return run


def _check_nothing(*_args: Any, **_kwargs: Any) -> None:
    """Accept all arguments; the result is checked in any case."""


def _check_round(precision: Any = 0, method: Any = "common") -> None:
    check_digits(precision)


def _check_trim(chars: Any = None) -> None:
    check_stripped(chars)


_CHECKS: Mapping[str, Function] = {"int": _check_nothing, "round": _check_round, "trim": _check_trim}


def _check_plain(value: Any) -> None:
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, Mapping):
            stack += [*node, *node.values()]
        elif isinstance(node, list | tuple):
            stack += node
        elif not (is_scalar(node) or isinstance(node, range)):
            str(node)  # An undefined value raises here and names itself.
            raise PrintError(f"a {type(node).__name__} has no text that is the same each time; print a value of it")


def _is_same(value: Any, other: Any) -> bool:
    """Test `sameas`: leaves are the same if they have the same type and are equal; other values only if they are identical."""
    if is_scalar(value):
        return type(value) is type(other) and bool(value == other)
    return value is other


_OPEN_OBJECTS = (LoopContext, Cycler, Joiner, Namespace, TemplateReference, BlockReference)
_STRIPPING = frozenset({"lstrip", "rstrip", "strip"})
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class _PromptGenerator(CodeGenerator):
    """Generates code that passes everything except template text through `finalize`, and joins by `~` through the environment.

    It notes in the environment which variables the code reads.
    """

    def enter_frame(self, frame: Frame) -> None:
        """Write the code that reads the variables of a frame, and note those that are not globals."""
        super().enter_frame(frame)
        loads = frame.symbols.loads.values()
        found = (name for kind, name in loads if kind == VAR_LOAD_RESOLVE and name not in self.environment.globals)
        cast("_Sandbox", self.environment).read_variables[self.name].update(name for name in found if name is not None)

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        if not isinstance(node, nodes.TemplateData):
            raise nodes.Impossible
        return super()._output_child_to_const(node, frame, finalize)

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        """Write the code of a node; a literal list or mapping is measured."""
        written = isinstance(node, nodes.List | nodes.Tuple | nodes.Dict) and getattr(node, "ctx", "load") == "load"
        self.write("environment.measured(" if written else "")
        result = super().visit(node, *args, **kwargs)
        self.write(")" if written else "")
        return result

    def visit_Assign(self, node: nodes.Assign, frame: Frame) -> None:  # noqa: N802
        """Record the line first, so that a wrong assignment is reported with its own line."""
        self.newline(node)
        super().visit_Assign(node, frame)

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802
        """Let slices go through the environment like every other subscript."""
        if not isinstance(node.arg, nodes.Slice):
            super().visit_Getitem(node, frame)
            return
        self.write("environment.getitem(")
        self.visit(node.node, frame)
        self.write(", slice(")
        for bound in (node.arg.start, node.arg.stop, node.arg.step):
            self.visit(bound if bound is not None else nodes.Const(None), frame)
            self.write(", ")
        self.write("))")

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802
        """Write a call of `Environment.join_values`."""
        self.write("environment.join_values((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")


class _Sandbox(ImmutableSandboxedEnvironment):
    """Common base of both kinds of templates: only the listed names, no clock, no randomness, and limits on everything."""

    code_generator_class = _PromptGenerator
    join_values = staticmethod(join_texts)
    measured = staticmethod(pay_for_value)
    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})

    def __init__(self, loader: BaseLoader, *, safe_output: bool) -> None:
        super().__init__(
            loader=loader,
            autoescape=safe_output,
            finalize=finalize_prompt if safe_output else finalize_reply,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=False,
            auto_reload=False,
            cache_size=-1,
            # Constants of a template are computed when it is rendered, because limits apply then.
            optimized=False,
        )
        self.read_variables = defaultdict[str | None, set[str]](set)
        """Variables that each compiled template reads itself, by the template's name."""
        self.used_templates: dict[str | None, tuple[str | None, ...]] = {}
        """Names that each parsed template extends, includes or imports; None for a name that is known only at run time."""
        self.filters = {**build_filters(FILTERS), **COUNTING_FILTERS}
        self.tests = cast("Any", build_tests(cast("Any", TESTS)))
        if safe_output:
            self.filters |= {
                "yaml": show_yaml,
                "text": show_text,
                "attr": show_attribute,
                "limits": show_limits,
            }
        self.globals = {
            "range": bounded_range,
            "dict": dict,
            "namespace": Namespace,
            "cycler": Cycler,
            "joiner": Joiner,
        }

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        self.used_templates[name] = tuple(find_referenced_templates(tree))
        for node, why in find_refused_parts(tree):
            raise TemplateSyntaxError(why, node.lineno, name, filename)
        count_work(tree)
        tree.set_environment(self)
        return tree

    def join_path(self, template: str, parent: str) -> str:
        """Return the name of an included or extended template; a bare file name belongs to the folder of the template that
        names it.
        """
        folder = parent.rpartition("/")[0]
        return f"{folder}/{template}" if folder and "/" not in template else template

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Allow the few attributes that templates need; refuse all others."""
        if isinstance(obj, str):
            return attr in TEXT_METHODS
        if isinstance(obj, Mapping):
            return attr in MAPPING_METHODS
        if isinstance(obj, list | tuple):
            return attr in LIST_METHODS
        module = type(obj).__name__ == "TemplateModule"
        return (module or isinstance(obj, _OPEN_OBJECTS)) and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:
        """Refuse `str.format`: text is joined by `~`."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Read `obj.attribute`; a mapping's key takes precedence (`bag.items` is the key if there is one)."""
        bare = strip_mark(obj)
        if isinstance(bare, Mapping) and attribute in bare:
            return bare[attribute]
        return super().getattr(bare, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Read `obj[argument]`."""
        found = super().getitem(strip_mark(obj), argument)
        return pay_for_value(found) if isinstance(argument, slice) else found

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Call a macro, a block or one of the offered functions, and count the call."""
        spend(steps=CALL_STEPS)
        owner = getattr(__obj, "__self__", None)
        pay(owner)
        if not isinstance(__obj, Macro):
            pay_arguments((*args, *kwargs.values()))
        if isinstance(owner, str) and __obj.__name__ in _STRIPPING and args:
            check_stripped(args[0])
        return pay_for_value(super().call(__context, __obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Calculate within limits: no text, list or number grows without bound."""
        if isinstance(left, str) and operator == "%":
            raise SecurityError("`%` does not format text in templates; print the parts, or join them by `~`")
        if isinstance(left, Markup) or isinstance(right, Markup):
            if operator == "+":
                return self.join_values((left, right))
            left, right = strip_mark(left), strip_mark(right)
        return self._arithmetic(operator, left, right)

    def _arithmetic(self, operator: str, left: Any, right: Any) -> Any:
        sized, number = (left, right) if isinstance(left, str | list | tuple) else (right, left)
        if isinstance(sized, str | list | tuple):
            check_size(len(sized) * max(0, number) if isinstance(number, int) and operator == "*" else len(sized))
        elif operator == "**":
            check_power(left, right)
        result = self.binop_table[operator](left, right)
        if isinstance(result, set | frozenset):
            raise PrintError("`-` subtracts only numbers; the difference of two mappings' keys has no order")
        check_number(result)
        return pay_for_value(result)


class _FileLoader(BaseLoader):
    """Loads the files of one TemplateSet; no other name exists."""

    def __init__(self, files: Mapping[str, TemplateFile]) -> None:
        self._files = files

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        if template not in self._files or not template.endswith(".j2"):
            raise TemplateNotFound(template)
        file = self._files[template]
        return file.text, file.shown, lambda: True


class SandboxRenderer:
    """Renders the templates of one set of files. This is the `Renderer` of a `TemplateSet`."""

    def __init__(self, files: Mapping[str, TemplateFile]) -> None:
        self._files = files
        self._environment = _Sandbox(_FileLoader(files), safe_output=True)

    def render(self, name: str, variables: Mapping[str, Any]) -> str:
        """Return the text of the template `name`, rendered with `variables`."""
        return _render(self._environment, name, variables, self._source_of)

    def compile(self, name: str) -> None:
        """Compile the template `name`."""
        _compile(self._environment, name, self._source_of)

    def find_read_variables(self, name: str) -> tuple[str, ...] | None:
        """Return the names of the variables that the template `name` may read, sorted.

        The templates that it extends, includes or imports are searched too. Return None if a template has a fault, is missing,
        or is named only at run time.
        """
        found: set[str] = set()
        waiting, seen = [name], set[str]()
        while waiting:
            each = waiting.pop()
            if each in seen:
                continue
            seen.add(each)
            try:
                self._environment.get_template(each)
            except Exception:
                return None  # Rendering reports the fault.
            found |= self._environment.read_variables[each]
            for used in self._environment.used_templates[each]:
                if used is None:
                    return None
                waiting.append(self._environment.join_path(used, each))
        return tuple(sorted(found))

    def _source_of(self, shown: str) -> TemplateFile | None:
        return next((file for file in self._files.values() if shown in (file.shown, file.name)), None)


def read_syntax(file: TemplateFile) -> Syntax:
    """Return the syntax tree and the tokens of a template without compiling the template.

    Raises TemplateError if the template cannot be parsed.
    """
    try:
        tree = _READER._parse(file.text, file.name, file.shown)
        tokens = tuple(_READER.lex(file.text, file.name, file.shown))
        root = _node(tree)
    except Exception as error:
        raise _build_template_error(error, file.name, {}, lambda _: file) from error
    return Syntax(root=root, tokens=tuple(locate_tokens(tokens, file.text)))


_READER = Environment(trim_blocks=True, lstrip_blocks=True)
_SYNTAX_DEPTH = 100


def _node(node: nodes.Node, depth: int = 0) -> Node:
    if depth > _SYNTAX_DEPTH:
        raise TemplateSyntaxError(f"is nested more than {_SYNTAX_DEPTH} deep; write it in steps", node.lineno)
    fields = {
        name: _node(value, depth + 1)
        if isinstance(value, nodes.Node)
        else tuple(_node(each, depth + 1) if isinstance(each, nodes.Node) else each for each in value)
        if isinstance(value, list | tuple)
        else value
        for name, value in node.iter_fields()
    }
    return Node(kind=type(node).__name__, line=node.lineno, fields=fields)


@functools.lru_cache(maxsize=512)
def _reply_environment(name: str, source: str) -> tuple[_Sandbox, TemplateFile]:
    file = TemplateFile(name=f"{name}.j2", shown=name, text=source)
    return _Sandbox(_FileLoader({file.name: file}), safe_output=False), file


def render_reply(source: str, variables: Mapping[str, Any], *, name: str) -> str:
    """Return a reply to a person: the text of the template `source`, rendered with `variables` and not escaped.

    Of a value with a description only the value is shown. Nothing in a value is ever read as a template. `name` is the name of
    the template in error messages. Raises TemplateError if the template has a fault or exceeds a limit.
    """
    environment, file = _reply_environment(name, source)
    return _render(environment, file.name, variables, lambda _: file)


def check_reply(source: str, *, name: str) -> None:
    """Compile the template `source` of a reply. `name` is the name of the template in error messages.

    Raises TemplateError if the template has a fault.
    """
    environment, file = _reply_environment(name, source)
    _compile(environment, file.name, lambda _: file)


_ROUNDS = 3
"""Number of simultaneous runs of a line from which it counts as calling itself."""

SourceOf = Callable[[str], TemplateFile | None]


def _compile(environment: _Sandbox, name: str, source_of: SourceOf) -> None:
    try:
        environment.get_template(name)
    except Exception as error:
        raise _build_template_error(error, name, {}, source_of) from error


def _render(environment: _Sandbox, name: str, variables: Mapping[str, Any], source_of: SourceOf) -> str:
    parts: list[str] = []
    length = 0
    try:
        with limit_rendering():
            for part in environment.get_template(name).generate(variables):
                length += len(part)
                if length > OUTPUT_LIMIT_CHARS:
                    raise LimitError(f"the template prints more than {OUTPUT_LIMIT_CHARS:,} characters")
                parts.append(part)
    except Exception as error:
        raise _build_template_error(error, name, variables, source_of) from error
    return "".join(parts)


def _build_template_error(
    error: Exception, name: str, variables: Mapping[str, Any], source_of: SourceOf
) -> TemplateError:
    """Return the error with the fault, its place and a remedy."""
    if isinstance(error, TemplateSyntaxError):
        file = source_of(error.filename or error.name or name)
        line: int | None = error.lineno
    else:
        file, line = _find_line(error.__traceback__, source_of)
        file = file or source_of(name)
    shown = file.shown if file else name
    if isinstance(error, RecursionError):
        reason = _explain_recursion(error.__traceback__, source_of)
    else:
        reason = _ADDRESS.sub("", _explain_error(error, variables))
    return TemplateError(shown, line, reason, file.line(line) if file else "")


def _find_line(traceback: TracebackType | None, source_of: SourceOf) -> tuple[TemplateFile | None, int | None]:
    """Return the innermost line of a template in a traceback."""
    file, line = None, None
    while traceback is not None:
        if "__jinja_exception__" in traceback.tb_frame.f_globals:
            found = source_of(traceback.tb_frame.f_code.co_filename)
            file, line = (found, traceback.tb_lineno) if found else (file, line)
        traceback = traceback.tb_next
    return file, line


def _explain_recursion(traceback: TracebackType | None, source_of: SourceOf) -> str:
    """Return the cause of an endless recursion: the templates that call each other, by their lines, or the nested value."""
    places: list[str] = []
    while traceback is not None:
        if "__jinja_exception__" in traceback.tb_frame.f_globals:
            found = source_of(traceback.tb_frame.f_code.co_filename)
            if found:
                places.append(f"{found.shown}:{traceback.tb_lineno}")
        traceback = traceback.tb_next
    last = places[-1] if places else ""
    before = places[:-1][::-1]
    if before.count(last) < _ROUNDS:
        return "an expression or a value is nested too deep here; write it in steps, or show less of the value"
    chain = places[len(places) - 2 - before.index(last) :]
    files = dict.fromkeys(place.rpartition(":")[0] for place in chain)
    if len(files) == 1:
        return f"this template includes or calls itself without end, at {', '.join(dict.fromkeys(chain))}; end it by a condition"
    return f"templates call each other in a circle, without end: {' → '.join(chain)}; remove one of these calls"


def _explain_error(error: Exception, variables: Mapping[str, Any]) -> str:
    if isinstance(error, TemplateNotFound):
        return f"there is no template {error.name!r} in the template folders; write a path below them, such as chat/status.j2"
    if isinstance(error, SecurityError):
        return f"{error.message}; a template may only read its values"
    if isinstance(error, UndefinedError):
        message = (error.message or "a name is undefined").replace("'dict object'", "this mapping")
        known = f"; here are: {', '.join(sorted(variables))}" if message.endswith(" is undefined") and variables else ""
        return f"{message}{known}"
    if isinstance(error, TemplateSyntaxError | TemplateRuntimeError):
        return error.message or "cannot be read"
    return str(error) if isinstance(error, LimitError | PrintError) else f"{type(error).__name__}: {error}"
