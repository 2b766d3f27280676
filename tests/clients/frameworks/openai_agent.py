"""An agent of openai-agents over responses, without tracing."""

import sys

from agents import Agent, Runner, function_tool, set_tracing_disabled
from folder_tools import list_files, read_file

set_tracing_disabled(disabled=True)
agent = Agent(
    name="Assistant",
    instructions="You are a helpful assistant who looks after a folder of notes.",
    model=sys.argv[1],
    tools=[function_tool(list_files), function_tool(read_file)],
)
print(Runner.run_sync(agent, sys.argv[2]).final_output)  # noqa: T201 - its whole purpose
