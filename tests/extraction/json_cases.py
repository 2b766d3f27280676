"""Invalid JSON, ambiguous JSON and valid JSON documents, generated from small parts by category."""

# ruff: noqa: E501, Q000 - tables of JSON are read across, and quoted as they come

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

NUMBERS = """
    - + +1 ++1 -- --1 -+1 01 -01 00 -00 012 1. -1. .5 -.5 1.e1 .e1 1e 1E 1e+ 1e- 1e1.5 1ee2 1e+-2 0x1 0xFF 0b1 0o7 1_000
    1a 1f 1L 0.1.2 1,5 NaN nan -NaN +NaN Infinity -Infinity +Infinity inf -inf 1e999 -1e999 1e5000 - 1-2 1+2 2.e3 2.e+3
    2.e-3 0e 0e+ 0E 0.e1 1.2a 1.8011670033376514H-308 1eE2 0.3e 0.3e+ -1x １ ٣ ½ ∞
""".split()  # noqa: SIM905 - a list of fifty strings reads worse
WORDS = "nul nulll NULL Null tru truee TRUE True fals FALSE False none None undefined nan yes no".split()  # noqa: SIM905
STRUCTURES = [
    "", " ", "\n", "{", "}", "[", "]", "1\u00a0", "[]]", "[[]", "{}}", "{{}}", "[}", "{]", "([])", "<null>", "[<null>]", "][", "}{",
    "1 2", "[] []", "{} {}", "{}{}", "[1]x", "{}#", "{} // c", "{} /* c */", "/* c */ {}", "// c\n{}", "# c\n{}", "{}\x00",
    "\x00{}", "[1]\x0c", "\x0b[1]", "\u00a0[1]", "\u2060[1]", "\u2028[1]", "\ufeff{}", "[1]\ufeff", "{}\u3000", ")]}'\n{}",
    '{"a":1}\n{"a":2}', '{"a":1},{"a":2}', ",", ":", '"', "'", "\\", "*", "a", "[*", "{*", "data: {}",
]  # fmt: skip
ARRAYS = [
    "[,]", "[1,]", "[,1]", "[1,,2]", "[1 2]", "[1:2]", "[1;2]", '["a" "b"]', "[1", "[1,", "[1,2", '["a', '["a"', "[1,\n1",
    "[\n]x", "[1]]", "[a]", "[-]", "[+]", "['a']", "[1,]]", "[[1]", "[(1)]", "[{]}", "[...]", "[1..2]", '["x",,]', "[\x0c]",
    "[\x00]", "[1\x0b]",
]  # fmt: skip
OBJECTS = [
    "{a:1}", "{'a':1}", '{"a"}', '{"a":}', '{"a" 1}', '{"a",1}', '{"a"=1}', '{"a"::1}', '{:1}', '{"a":1,}', '{,"a":1}',
    '{"a":1,,"b":2}', '{"a":1 "b":2}', '{"a":1;"b":2}', '{1:1}', '{null:1}', '{true:1}', '{[]:1}', '{{}:1}', '{"a":1', '{"a":',
    '{"a', '{"a"', '{"a":"b', '{"a":1}}', '{"a":a}', '{"a":undefined}', '{"a":1,"b"}', '{"a" : 1 :2}', '{"a":1/**/}',
    '{/**/"a":1}', '{"a":1}//', '{"a":1}#', '{"a":\'b\'}', "{\"a':1}", '{"a":1,"b":2', '{@"a":1}', '{"\x01":1}', '{...}',
]  # fmt: skip
STRINGS = [
    *(f'"\\{char}"' for char in "axvz0123'U `-é\u3000"), '"\\', '"\\"', '"\\u"', '"\\u1"', '"\\u12"', '"\\u123"', '"\\u00g0"',
    '"\\u{41}"', '"\\uD800"', '"\\uDFFF"', '"\\uD800\\u0041"', '"\\uD800x"', '"\\uD800\\n"', '"\\uD800\\uD800"', '"\\uDC00\\uD800"',
    '"\\ud83d\\ud83d\\ude00"', '"a\nb"', '"a\tb"', '"a\rb"', *(f'"{chr(code)}"' for code in range(8)), "'a'", "`a`", "a", '"a',
    'a"', '"a"b"', '"a" "b"', '\\u0022a"', '"""a"""', 'u"a"', 'b"a"', "\u201ca\u201d", "\uff02a\uff02", '"a"+"b"',
]  # fmt: skip
BYTES = [
    b"\xef\xbb\xbf{}", b"\xff\xfe{\x00}\x00", b"\xfe\xff\x00{\x00}", b"{\x00}\x00", b"\x00{\x00}", b"\xff\xfe\x00\x00{\x00\x00\x00",
    b'"\xff"', b'"\x80"', b'"\xc3"', b'"\xc0\x80"', b'"\xc1\xa1"', b'"\xe0\x80\xaf"', b'"\xed\xa0\x80"', b'"\xed\xbf\xbf"',
    b'"\xed\xa0\xbd\xed\xb8\x80"', b'"\xf4\x90\x80\x80"', b'"\xf8\x88\x80\x80\x80"', b'"\xe2\x82"', b'"\xe2\x28\xa1"', b"\xe9",
    b'{"\xff":1}', b"[1]\xff", b'"a\xc3', b'"\\u00e9\xe9"', b"\x1f\x8b\x08\x00", b"\x80\x04\x95",
]  # fmt: skip


def invalid() -> Iterator[bytes]:
    """Documents that must be refused, each alone and as the value of a request's field."""
    loose = [*NUMBERS, *WORDS, *STRINGS]
    for text in (*loose, *STRUCTURES, *ARRAYS, *OBJECTS):
        yield text.encode()
    for text in (*loose, *ARRAYS, *OBJECTS):
        yield f'{{"messages":[{{"role":"user","content":{text}}}]}}'.encode()
    yield from BYTES
    yield from (b'{"prompt":' + data + b"}" for data in BYTES if data.startswith(b'"'))


def ambiguous() -> Iterator[bytes]:
    """Grammatical JSON that parsers read differently, which must be refused as well."""
    for name, other_name in product(('"prompt"', '"\\u0070rompt"', '"prompt" '), repeat=2):
        yield f'{{{name}:"a",{other_name}:"b"}}'.encode()
        yield f'{{"messages":[{{"content":[{{"x":{{{name}:1,{other_name}:2}}}}]}}]}}'.encode()
    for pair in (
        '"":1,"":2',
        '"a":1,"b":{},"a":1',
        '"é":1,"\\u00e9":2',
        '"a:":1,"a\\u003a":2',
        '"😀":1,"\\ud83d\\ude00":2',
        '"a\\\\":1,"a\\u005c":2',
    ):
        yield f'{{"metadata":{{{pair}}}}}'.encode()
    for name in (
        "Prompt",
        "PROMPT",
        "pRompt",
        "\uff50rompt",
        "\u2119rompt",
        "prompt\u200b",
        "prompt\\u0000",
        "prompT",
    ):
        yield f'{{"{name}":"a"}}'.encode()
    for name in (
        "Messages",
        "me\u017f\u017fages",
        "ME\u017fSAGES",
        "messages\u2060",
        "Tool\u017f",
        "to\u212aens",
    ):
        yield f'{{"model":"m","{name}":[]}}'.encode()
    for name in ("Content", "CONTENT", "Role", "ROLE", "content\\u200d", "\\u0043ontent"):
        yield f'{{"messages":[{{"{name}":"a"}}]}}'.encode()
    for number in ("18446744073709551616", "-9223372036854775809", "9" * 40, "1" * 300, "9" * 5000, "1" + "0" * 400):
        yield f'{{"seed":{number}}}'.encode()
        yield f'{{"seed": {number}, "prompt": "x"}}'.encode()


VALID = [
    "{}", " {} ", "\t\r\n{}\n", '{"prompt":"a"}', '{ "prompt" : "a:b" }', '{"prompt":"\\u003a \\":"}', '{"a":{"a":{"a":1}}}',
    '{"metadata":{"Prompt":"a","prompt":"b","CONTENT":"c"}}', '{"tools":[{"function":{"parameters":{"properties":{"Name":{}}}}}]}',
    '{"Unheard":1,"unheard":2}', '{"a":"\\ud83d\\ude00\\u0000\\u007f\\/\\b\\f"}', '{"seed":18446744073709551615}',
    '{"seed":-9223372036854775808}', '{"temperature":1e20,"top_p":1E-5,"n":-0}', '{"input":[1,2,3]}', '{"input":[1, 2, 3]}',
    '{"":""}', '{"a\\\\":1,"b\\\\":2}', '{"a":"\u2028\u2029\ufeff"}', "[]", "[[],{}]", '"a"', "0", "-1.5e+3", "null", "true",
]  # fmt: skip
