"""An agent of pydantic-ai over chat completions."""

import sys

from folder_tools import list_files, read_file
from pydantic_ai import Agent

agent = Agent(
    f"openai-chat:{sys.argv[1]}",
    instructions="You are a helpful assistant who looks after a folder of notes.",
    tools=[list_files, read_file],
)
print(agent.run_sync(sys.argv[2]).output)  # noqa: T201 - its whole purpose
