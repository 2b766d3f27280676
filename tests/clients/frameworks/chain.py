"""A LangChain agent with ChatOpenAI."""

import sys

from folder_tools import list_files, read_file
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

agent = create_agent(
    ChatOpenAI(model=sys.argv[1]),
    tools=[list_files, read_file],
    system_prompt="You are a helpful assistant who looks after a folder of notes.",
)
print(agent.invoke({"messages": [{"role": "user", "content": sys.argv[2]}]})["messages"][-1].content)  # noqa: T201 - its whole purpose
