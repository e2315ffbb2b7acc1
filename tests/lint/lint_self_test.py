#!/usr/bin/env python3
"""Tests of the lint checks: each sample breaks at most one rule."""
import pathlib
import sys
import unittest

import calls as call_lint
import cycles
import lint_docs
import lint_figures
import lint_layers
import lint_form
import lint_words
from source import functions, without_comments_and_strings
from tags import doubled_types

SEGMENT = pathlib.Path("segments/sample.c")
DRIVER = pathlib.Path("vmm/driver.c")
SIM = pathlib.Path("vmm/tools/sim/conf.c")


def calls(path, text):
    return list(lint_layers.check_calls(path, without_comments_and_strings(text)))


def names(path, text):
    return list(lint_layers.check_names(path, without_comments_and_strings(text)))


class Layers(unittest.TestCase):
    def test_an_include_of_a_higher_layer_is_found(self):
        up = '#include "api/pleat.h"\n'
        self.assertEqual(len(list(lint_layers.check_includes(SEGMENT, up))), 1)
        down = '#include "vmm/device.h"\n'
        self.assertEqual(list(lint_layers.check_includes(SEGMENT, down)), [])

    def test_an_include_of_a_tool_is_found(self):
        tool = '#include "vmm/tools/measure/measure.h"\n'
        self.assertEqual(len(list(lint_layers.check_includes(SEGMENT, tool))), 1)
        self.assertEqual(len(list(lint_layers.check_includes(DRIVER, tool))), 1)
        bench = pathlib.Path("bench/run/sample.c")
        self.assertEqual(list(lint_layers.check_includes(bench, tool)), [])

    def test_an_include_of_a_higher_room_is_found(self):
        run = pathlib.Path("segments/pleat/space/run.c")
        up = '#include "segments/pleat/grow/grow.h"\n'
        down = '#include "segments/pleat/space/run.h"\n'
        self.assertEqual(len(list(lint_layers.check_includes(run, up))), 1)
        self.assertEqual(list(lint_layers.check_includes(run, down)), [])
        grow = pathlib.Path("segments/pleat/grow/grow.c")
        self.assertEqual(list(lint_layers.check_includes(grow, up + down)), [])

    def test_rooms_of_each_layer_are_ranked(self):
        for low, high in (("api/base", "api/instance"), ("bench/work", "bench/import"),
                          ("api/calls", "api/adapters"), ("segments/base", "segments/pleat/space")):
            self.assertFalse(lint_layers.is_up(pathlib.Path(high, "a.c"), pathlib.Path(low, "b.h")))
            self.assertTrue(lint_layers.is_up(pathlib.Path(low, "a.c"), pathlib.Path(high, "b.h")))

    def test_a_folder_without_a_rank_is_found(self):
        paths = [pathlib.Path("api/attic/a.c"), pathlib.Path("api/base/b.c"),
                 pathlib.Path("vmm/anything/c.c")]
        found = list(lint_layers.check_rooms(paths))
        self.assertEqual(len(found), 1)
        self.assertIn("api/attic", found[0])

    def test_modules_of_the_package_import_down(self):
        shared = pathlib.Path("python/pleat/_shortage.py")
        torch = pathlib.Path("python/pleat/torch/_pool.py")
        other = pathlib.Path("python/pleat/vllm.py")
        for path, text, n in ((shared, "from . import cupy\n", 1), (shared, "import pleat.torch\n", 1),
                              (torch, "import pleat.vllm\n", 1), (torch, "from .. import _tag\n", 0),
                              (other, "import pleat.torch\nfrom . import _tag\n", 0),
                              (shared, "def f():\n    import pleat.torch\n", 0)):
            self.assertEqual(len(list(lint_layers.check_package(path, text))), n, text)

    def test_a_cuda_header_is_found_outside_the_driver(self):
        text = "#include <cuda.h>\n"
        self.assertEqual(len(list(lint_layers.check_includes(SEGMENT, text))), 1)
        self.assertEqual(list(lint_layers.check_includes(DRIVER, text)), [])

    def test_a_name_of_cuda_is_found_in_code_but_not_in_text(self):
        self.assertEqual(len(names(SEGMENT, "cuMemCreate(&h);\n")), 1)
        self.assertEqual(len(names(SEGMENT, "cu_result r = CU_SUCCESS;\n")), 2)
        self.assertEqual(names(SEGMENT, '/* cuMemCreate */ say("cuMemCreate");\n'), [])
        self.assertEqual(names(DRIVER, "cuMemCreate(&h);\n"), [])

    def test_a_banned_call_is_found_outside_its_home(self):
        self.assertEqual(len(calls(SEGMENT, "p = malloc(1);\n")), 1)
        self.assertEqual(len(calls(SEGMENT, 'x = getenv("A");\n')), 1)
        self.assertEqual(len(calls(SEGMENT, 'x = secure_getenv("A");\n')), 1)
        self.assertEqual(calls(DRIVER, 'x = secure_getenv("A");\n'), [])
        self.assertEqual(len(calls(SEGMENT, "pthread_cond_wait(&c, &m);\n")), 1)
        self.assertEqual(calls(SEGMENT, "a->ops->free(a, p);\nops.free(p);\n"), [])
        self.assertEqual(calls(SEGMENT, "snprintf(t, 9, x); block_free(p);\n"), [])

    def test_the_environment_is_read_securely_even_at_home(self):
        self.assertEqual(len(calls(DRIVER, 'x = getenv("A");\n')), 1)
        self.assertEqual(len(calls(SIM, 'x = getenv("A");\n')), 1)
        self.assertEqual(calls(SIM, 'x = secure_getenv("A"); p = malloc(1);\n'), [])

    def test_a_function_that_calls_itself_is_found(self):
        body = "static int depth(int n)\n{\n    return n ? depth(n - 1) : 0;\n}\n"
        self.assertEqual(len(list(lint_layers.check_recursion(SEGMENT, body))), 1)
        member = "static int depth(int n)\n{\n    return ops->depth(n);\n}\n"
        self.assertEqual(list(lint_layers.check_recursion(SEGMENT, member)), [])


class Rings(unittest.TestCase):
    def test_a_ring_is_found_and_what_leads_to_it_is_no_part_of_it(self):
        self.assertEqual(cycles.rings({"a": ["b"], "b": ["c"], "c": ["b", "d"]}), [("b", "c")])
        self.assertEqual(cycles.rings({"a": ["a"]}), [("a",)])
        self.assertEqual(cycles.rings({"a": ["b", "c"], "b": ["c"], "c": []}), [])

    def test_headers_that_include_each_other_are_found(self):
        block, oom = pathlib.Path("api/calls/block.h"), pathlib.Path("api/instance/oom.h")
        texts = {block: '#include "api/instance/oom.h"\n', oom: '#include "api/calls/block.h"\n'}
        self.assertEqual(lint_layers.include_rings(texts), [(block, oom)])
        texts[oom] = "#include <stdio.h>\n"
        self.assertEqual(lint_layers.include_rings(texts), [])

    def call_rings(self, **files):
        codes = {pathlib.Path("segments/some", name.replace("_h", ".h") if name.endswith("_h")
                              else f"{name}.c"): text for name, text in files.items()}
        return [ring for found in call_lint.call_rings(codes) for ring in found]

    def test_files_of_a_folder_that_call_each_other_are_found(self):
        up = "void pl_up(void)\n{\n    pl_down();\n}\n"
        down = "void pl_down(void)\n{\n    pl_up();\n}\n"
        self.assertEqual(self.call_rings(up=up, down=down),
                         ["down.c -> up.c: pl_up", "up.c -> down.c: pl_down"])
        self.assertEqual(self.call_rings(up=up, down=down.replace("pl_up();", "s->pl_up;")), [])
        elsewhere = {pathlib.Path("segments/up.c"): up, pathlib.Path("api/down.c"): down}
        self.assertEqual(list(call_lint.call_rings(elsewhere)), [])

    def test_a_call_through_an_inline_function_or_a_table_is_found(self):
        up = "void pl_up(void)\n{\n    pl_down();\n}\n"
        down = "void pl_down(void)\n{\n    pl_look();\n}\n"
        header = "static inline void pl_look(void)\n{\n    pl_up();\n}\n"
        self.assertEqual(len(self.call_rings(up=up, down=down, up_h=header)), 2)
        table = "void pl_down(void)\n{\n}\nconst pl_ops ops = {\n    .go = pl_up,\n};\n"
        self.assertEqual(len(self.call_rings(up=up, down=table)), 2)
        self.assertEqual(self.call_rings(up=up, down=table.replace("pl_up", "up")), [])

    def test_static_functions_and_variables_of_the_same_name_are_no_calls(self):
        up = "void pl_up(void)\n{\n    pl_down();\n}\n"
        static = "static void pl_up(void)\n{\n}\nvoid pl_down(void)\n{\n    pl_up();\n}\n"
        self.assertEqual(self.call_rings(up=up, down=static), [])
        for variable in ("int pl_up = 0", "char *pl_up", "uint8_t pl_up[4]"):
            down = f"void pl_down(void)\n{{\n    {variable};\n    use(pl_up);\n}}\n"
            self.assertEqual(self.call_rings(up=up, down=down), [])
        parameter = "void pl_down(int pl_up)\n{\n    use(pl_up);\n}\n"
        self.assertEqual(self.call_rings(up=up, down=parameter), [])

    def test_an_import_counts_when_it_runs_as_the_module_is_loaded(self):
        def needs(text):
            path = pathlib.Path("python/pleat/torch/_patch.py")
            return [module.as_posix() for module in cycles.imports(path, text)]

        install, package = "python/pleat/torch/_install.py", "python/pleat/torch/__init__.py"
        self.assertEqual(needs("from . import _install\n"), [install])
        self.assertEqual(needs("from ._install import install\n"), [install])
        self.assertEqual(needs("import pleat.torch._install\n"), [install])
        self.assertEqual(needs("try:\n    from . import install\nexcept OSError:\n    pass\n"),
                         [package])
        self.assertEqual(needs("from .. import _conf\nimport os\n"), ["python/pleat/_conf.py"])
        self.assertEqual(needs("import _install\n"), [])
        self.assertEqual(needs("def late():\n    from . import _install\n"), [])


class Sizes(unittest.TestCase):
    def test_functions_are_measured_from_brace_to_brace(self):
        text = "int a(int (*b)(void))\n{\n    if (b) {\n    }\n    return 0;\n}\n\nSTART_TEST(c)\n{\n}\n"
        found = [(name, lines) for _, lines, name, _ in functions(text)]
        self.assertEqual(found, [("a", 5), ("c", 2)])


class Documents(unittest.TestCase):
    def test_a_comment_that_names_no_file_is_found(self):
        known = ["segments/pleat/run.h"]
        named = "/* see run.h and pleat/run.h, from torch/csrc/x.cpp */\n"
        self.assertEqual(list(lint_docs.check_named_files(SEGMENT, named, known)), [])
        lost = "int f(void); // see ran.h\n"
        self.assertEqual(len(list(lint_docs.check_named_files(SEGMENT, lost, known))), 1)

    def test_a_file_of_the_spine_that_is_none_is_found(self):
        known = ["segments/pleat/run.h", "segments/pleat/fit.c", "segments/base/fit.c"]
        for name, n_faults in (("pleat/run.h", 0), ("run.h", 0), ("ran.h", 1), ("fit.c", 1)):
            found = list(lint_docs.check_spine(f"| `{name}` | what |\n", known))
            self.assertEqual(len(found), n_faults, name)
        self.assertEqual(len(list(lint_docs.check_spine("none\n", known))), 1)

    def test_a_spine_that_includes_a_room_is_found(self):
        self.assertEqual(list(lint_docs.spine_files("| `space/run.h` | what |\n")),
                         ["space/run.c", "space/run.h"])
        def found(name, *headers):
            files = {f"segments/pleat/{name}": headers,
                     "segments/pleat/space/walk.h": ["segments/pleat/space/heap.h"]}
            return len(list(lint_docs.check_rooms(name, lambda path: "".join(
                f'#include "{header}"\n' for header in files.get(str(path), [])))))
        room = "segments/pleat/"
        self.assertEqual(found("space/run.c", f"{room}space/area.h"), 0)
        self.assertEqual(found("space/run.c", f"{room}space/heap.h"), 1)
        self.assertEqual(found("space/run.c", f"{room}space/walk.h"), 1) # by another header
        self.assertEqual(found("space/run.c", "vmm/share.h"), 1)
        self.assertEqual(found("grow/fit.c", f"{room}streams/drain.h"), 0) # stated
        self.assertEqual(found("grow/fit.c", f"{room}sleep/sleep.h"), 2) # and drain.h is not there

    def test_long_prose_is_found_but_no_long_table_or_code(self):
        long = "word " * 30
        self.assertEqual(len(list(lint_docs.check_prose("a.md", long))), 1)
        free = f"| {long}|\n    {long}\n```\n{long}\n```\n"
        self.assertEqual(list(lint_docs.check_prose("a.md", free)), [])


class Tags(unittest.TestCase):
    def test_a_type_that_two_files_define_is_found(self):
        for text in ("struct pl_some {\n    int n;\n};\n", "typedef int pl_some;\n",
                     "typedef struct pl_other {\n    int n;\n} pl_some;\n",
                     "typedef bool (*pl_some)(int n);\n"):
            other = "struct pl_some {\n    char c;\n};\n"
            self.assertEqual(doubled_types({"a.h": text, "b.h": other}),
                             [("pl_some", ["a.h", "b.h"])])

    def test_who_only_names_a_type_does_not_define_it(self):
        home = "typedef struct pl_some {\n    int n;\n} pl_some;\n"
        for text in ("struct pl_some;\n", "typedef struct pl_some pl_some;\n",
                     "struct pl_some *pl_make(struct pl_some *from);\n"):
            self.assertEqual(doubled_types({"a.h": home, "b.h": text}), [])


class Docstrings(unittest.TestCase):
    def test_fields_out_of_order_are_found(self):
        wrong = "/** Do.\n *\n *  Returns  PLEAT_OK.\n *  Params   a  that. */"
        right = "/** Do.\n *\n *  Params   a  that.\n *  Returns  PLEAT_OK. */"
        self.assertEqual(len(list(lint_docs.check_fields("x", wrong))), 1)
        self.assertEqual(list(lint_docs.check_fields("x", right)), [])

    def test_a_prototype_without_docstring_is_found(self):
        text = "/** Do. */\nPLEAT_API int a(void);\n\nPLEAT_API int b(void);\n"
        docs = [doc is not None for _, doc, _ in lint_docs.prototypes(text, "PLEAT_API")]
        self.assertEqual(docs, [True, False])


    def test_a_call_is_told_as_programs_write_it(self):
        for prototype, call in (
                ("PLEAT_API int a_b(void);", "a_b()"),
                ("PLEAT_API int a(pleat instance,\n    const char *tag, pleat_stat of[3]);",
                 "a(instance, tag, of)"),
                ("PLEAT_API int a_sized(int device, size_t out_bytes, some *out);", "a(device, out)"),
                ("PLEAT_API int a(int n, void (*see)(const x *y, void *context), void *context);",
                 "a(n, see, context)")):
            self.assertEqual(lint_docs.call_of(prototype), call)


class Form(unittest.TestCase):
    def test_driver_work_under_the_lock_is_found(self):
        def found(path, code):
            return len(list(lint_form.check_driver_work(pathlib.Path(path), code)))

        self.assertEqual(found("segments/pleat/grow/trim.c", "pl_mapping_unmap(dev, at, n);"), 1)
        self.assertEqual(found("segments/pleat/grow/trim.c", "pl_mapping_assert;"), 0)
        self.assertEqual(found("segments/pleat/grow/trim.c", "pl_lock_yield(&lock);"), 1)
        self.assertEqual(found("segments/pleat/space/space.c", "pl_lock_yield(&lock);"), 0)
        self.assertEqual(found("segments/pleat/ops/lifecycle.c", "pl_mapping_unmap(dev, at, n);"), 0)
        self.assertEqual(found("segments/pleat/grow/trim.c", "pl_lock_acquire(&space->lock);"), 1)
        away = "pl_away(space);\npl_mapping_unmap(dev, at, n);\n"
        self.assertEqual(found("segments/pleat/grow/trim.c", away + "pl_back(space);\n}\n"), 0)
        self.assertEqual(found("segments/pleat/grow/trim.c", away + "}\n"), 1)
        self.assertEqual(found("segments/pleat/grow/trim.c", away + "return st;\n}\n"), 1)
        self.assertEqual(found("segments/pleat/grow/trim.c", away + away + "pl_back(space);\n"), 1)
        self.assertEqual(found("segments/pleat/grow/trim.c", "pl_back(space);\n"), 1)
        self.assertEqual(found("segments/classic/cache.c", "pl_chunk_create(dev, &chunk);"), 0)

    def test_a_name_twice_in_a_layer_is_found(self):
        def n_found(*paths):
            return len(list(lint_form.check_file_names([pathlib.Path(p) for p in paths])))
        self.assertEqual(n_found("vmm/work.c", "vmm/tools/measure/work.c"), 1)
        self.assertEqual(n_found("vmm/work.c", "api/work.c"), 0)
        self.assertEqual(n_found("tests/api/a_test.c", "tests/api/pool/a_test.c"), 1)
        self.assertEqual(n_found("tests/api/a_test.c", "tests/vmm/a_test.c"), 0)


class Words(unittest.TestCase):
    def test_names_that_went_are_found(self):
        path = pathlib.Path("a.c")
        for text in ("pl_room *room;", "ops->room_wake(a)", "PL_BLOCK_KEPT", "space->limit_chunks",
                     "pl_host *host", "pl_host_free(h, p)", "space->n_events", "FLIGHT, KEPT",
                     "as the room shrinks", "(device x room)", "adopted pending memory",
                     "| tied (stranded) |", "hole->tick", "pl_policy_room(space, cap)", "seg->n_rooms",
                     "b->kept_in"):
            self.assertEqual(len(list(lint_words.old_names(path, text))), 1, text)
        for text in ("/* there is room for n_chunks */", "/* the headroom shrinks */",
                     "/* stranded bytes, kept contents */", "context->tick.fence",
                     "def test_kept_in_a_file():"):
            self.assertEqual(list(lint_words.old_names(path, text)), [])

    def test_a_promise_without_its_exception_is_found(self):
        path = pathlib.Path("a.md")
        for text in ("GPU memory that does not fragment", "any free memory of pleat\nserves it",
                     "| fragmentation | gone |", "it never fails because its", "no fragmentation"):
            self.assertEqual(len(list(lint_words.promises(path, text))), 1, text)
        for text in ("free memory serves any request, by default except in", "blocks do not fragment",
                     "any free memory of the stream's"):
            self.assertEqual(list(lint_words.promises(path, text)), [])

    def test_a_glossary_with_a_noun_twice_or_none_is_found(self):
        def page(nouns):
            rows = "".join(f"| {noun} (field) | meaning |\n" for noun in nouns)
            return f"# A\n\n| noun | meaning |\n|---|---|\n{rows}\n| row | what |\n|---|---|\n| x | y |\n"
        for first, second, n_faults in ((["lane", "run"], ["bed"], 0), (["lane", "lane"], [], 1),
                                        (["lane"], ["run", "lane"], 1), ([], [], 1)):
            pages = {"a.md": page(first), "b.md": page(second)}
            found = list(lint_words.check_glossaries(pages))
            self.assertEqual(len(found), n_faults, (first, second))


class Figures(unittest.TestCase):
    MARKERS = ("<!-- a -->", "<!-- b -->")

    def test_a_table_that_differs_from_its_file_is_found(self):
        def n_found(written):
            text = f"{self.MARKERS[0]}\n{written}\n{self.MARKERS[1]}\n"
            return len(list(lint_figures.differing("a.md", text, "| 1 |\n| 2 |", self.MARKERS)))
        self.assertEqual([n_found(written) for written in
                          ("| 1 |\n| 2 |", "| 1 |\n| 3 |", "| 2 |\n| 1 |", "| 1 |\n| 2 |\n| 9 |")],
                         [0, 1, 1, 1])
        self.assertEqual(len(list(lint_figures.differing("a.md", "", "", self.MARKERS))), 1)

    def test_counts_of_tests_that_differ_from_their_files_are_found(self):
        rows = [{"native": "pass", "pleat": "pass"}, {"native": "pass", "pleat": "fail"},
                {"native": "fail", "pleat": "fail"}]
        script = {"program": "a", "way": "pleat", "requests": "1000", "requested_bytes": "0",
                  "peak_requested": str(1 << 30), "peak_reserved": str(3 << 29),
                  "completes_at": "1.02", "batch": ""}
        page = ("On 1.0 2 pass natively, and 1 of these\nunder pleat.\n\n"
                "| test_cuda: all | 3 | 2 | 1 |\n\n"
                "| a | pleat | 1,000 | 0.00 | 1.000 | 1.500 | 1.02 x |\n")

        def n_found(text):
            return len(list(lint_figures.check_tests(text, [script], {"1.0": rows}, rows)))
        self.assertEqual([n_found(text) for text in
                          (page, page.replace("and 1", "and 2"), page.replace("2 | 1", "2 | 2"),
                           page.replace("1.500", "1.499"))], [0, 1, 1, 1])

    def test_a_card_of_another_size_is_found(self):
        source = "#define OTHERS 512 /* MiB */\n    { \"24 GB\", (22528 - OTHERS) * MIB },\n"
        self.assertEqual([len(list(lint_figures.check_cards(f"| 24 GB | {size} | L4 |", source)))
                          for size in ("21.5", "21.6")], [0, 1])


if __name__ == "__main__":
    sys.exit(unittest.main())
