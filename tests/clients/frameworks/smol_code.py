"""A CodeAgent of smolagents, as in its guide."""

import sys

from folder_tools import list_files, read_file
from smolagents import CodeAgent, OpenAIModel, tool

model = OpenAIModel(sys.argv[1])
print(CodeAgent(tools=[tool(list_files), tool(read_file)], model=model).run(sys.argv[2]))  # noqa: T201 - its whole purpose
