"""Enough of PromQL's grammar to tell a valid expression from a broken one, and to find its metrics.

`names_in` parses an expression and returns its metrics with their labels. It refuses unknown functions, unbalanced
brackets, a rate without a range, and operators without operands. It knows the part of PromQL that the dashboard and the
alert rules use; promtool, where it is installed, knows all.
"""

from __future__ import annotations

import re

AGGREGATIONS = {"sum", "max", "min", "avg", "count", "topk", "bottomk", "quantile"}
RANGE_FUNCTIONS = {"rate", "increase", "irate", "deriv", "delta", "max_over_time", "min_over_time", "avg_over_time"}
FUNCTIONS = {"absent", "time", "vector", "histogram_quantile", "clamp_min", "clamp_max", "abs", "label_values"}
BINARY = ("and", "or", "unless", "==", "!=", ">=", "<=", ">", "<", "+", "-", "*", "/", "%", "^")
TOKEN = re.compile(
    r"""\s*(?:
        (?P<duration>\[\d+(?:ms|s|m|h|d|w)\])
      | (?P<number>\d+(?:\.\d+)?)
      | (?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
      | (?P<text>"[^"\\]*")
      | (?P<symbol>==|!=|>=|<=|=~|!~|[{}()=,><+\-*/%^])
    )""",
    re.VERBOSE,
)


class PromqlError(ValueError):
    """An expression that is no PromQL, or that this parser does not know."""


def names_in(expression):
    """Return {metric: labels by which the expression selects or groups it}. Raises: PromqlError."""
    parser = _Parser(_tokens(expression))
    found = parser.expression()
    if parser.tokens:
        raise PromqlError(f"{expression!r}: {parser.tokens[0][1]!r} is too much")
    return found


def _tokens(expression):
    tokens, at = [], 0
    expression = expression.rstrip()
    while at < len(expression):
        match = TOKEN.match(expression, at)
        if match is None:
            raise PromqlError(f"{expression!r}: {expression[at:]!r} is no PromQL")
        tokens.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return tokens


def _merged(*many):
    merged = {}
    for names in many:
        for metric, labels in names.items():
            merged[metric] = merged.get(metric, set()) | labels
    return merged


class _Parser:
    def __init__(self, tokens):
        self.tokens = tokens

    def peek(self):
        return self.tokens[0] if self.tokens else ("end", "")

    def take(self, wanted=None):
        kind, text = self.peek()
        if kind == "end" or (wanted is not None and text != wanted):
            raise PromqlError(f"{wanted or 'more'} is missing before {text!r}")
        self.tokens.pop(0)
        return kind, text

    def expression(self):
        found = self.operand()
        while self.peek()[1] in BINARY:
            self.take()
            labels = set()
            if self.peek()[1] == "on":
                self.take()
                labels = self.labels()
            elif self.peek()[1] == "ignoring":
                # the metrics need not have these labels: only one of the two sides may
                self.take()
                self.labels()
            found = _merged(found, self.operand())
            found = {metric: known | labels for metric, known in found.items()}
        return found

    def operand(self):
        kind, text = self.take()
        if text == "(":
            found = self.expression()
            self.take(")")
            return found
        if kind == "number":
            return {}
        if kind != "name":
            raise PromqlError(f"{text!r} where an operand should be")
        if text in AGGREGATIONS:
            return self.aggregation(text)
        if self.peek()[1] == "(":
            return self.call(text)
        return self.selector(text, ranged=False)

    def aggregation(self, name):
        labels = set()
        if self.peek()[1] in ("by", "without"):
            self.take()
            labels = self.labels()
        self.take("(")
        if name in {"topk", "bottomk", "quantile"}:
            if self.take()[0] != "number":
                raise PromqlError(f"{name} wants a number first")
            self.take(",")
        found = self.expression()
        self.take(")")
        if self.peek()[1] in ("by", "without"):
            self.take()
            labels |= self.labels()
        return {metric: known | labels for metric, known in found.items()}

    def call(self, name):
        if name not in RANGE_FUNCTIONS | FUNCTIONS:
            raise PromqlError(f"{name} is no function")
        self.take("(")
        if name in RANGE_FUNCTIONS:
            found = self.selector(self.take()[1], ranged=True)
            self.take(")")
            return found
        found = {}
        while self.peek()[1] != ")":
            found = _merged(found, self.expression())
            if self.peek()[1] == ",":
                self.take(",")
        self.take(")")
        return found

    def selector(self, metric, *, ranged):
        labels = set()
        if self.peek()[1] == "{":
            self.take()
            while self.peek()[1] != "}":
                label = self.take()[1]
                if self.take()[1] not in {"=", "!=", "=~", "!~"} or self.take()[0] != "text":
                    raise PromqlError(f"{metric}: {label} is matched with no text")
                labels.add(label)
                if self.peek()[1] == ",":
                    self.take()
            self.take("}")
        if (self.peek()[0] == "duration") is not ranged:
            raise PromqlError(f"{metric} {'needs' if ranged else 'has'} a range")
        if ranged:
            self.take()
        return {metric: labels}

    def labels(self):
        self.take("(")
        found = set()
        while self.peek()[1] != ")":
            found.add(self.take()[1])
            if self.peek()[1] == ",":
                self.take()
        self.take(")")
        return found
