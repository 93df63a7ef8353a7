from __future__ import annotations

from lakehouse.orchestration.markdown import Code, markdown_list, markdown_table


def test_numbers_stand_to_the_right() -> None:
    assert (
        markdown_table(["name", "rows"], [["a", 1], ["b", 20]])
        == "| name | rows |\n| --- | --: |\n| a | 1 |\n| b | 20 |"
    )
    assert markdown_table(["name"], []) == "| name |\n| --- |"


def test_a_name_from_a_bucket_makes_no_link_no_image_no_line_and_no_cell() -> None:
    table = markdown_table(["object"], [["a](https://x.test)![b](c)|<i>`d`\n| e |"]])
    assert table.splitlines()[2:] == [r"| a\](https://x.test)!\[b\](c)\|\<i\>\`d\`\\n\| e \| |"]
    assert markdown_list(["a\n- b", "*c*"]) == "- a\\\\n- b\n- \\*c\\*"


def test_a_command_can_be_copied() -> None:
    command = Code("lakehouse object skip 's3://b/a_[1]*.csv' --reason TEXT")
    assert markdown_table(["next"], [[command], [Code("")], [Code("a`b")], [Code("`")], [Code("a | b")]]).splitlines()[
        2:
    ] == [
        f"| `{command}` |",
        "|  |",
        "| ``a`b`` |",
        "| `` ` `` |",
        r"| `a \| b` |",
    ]
