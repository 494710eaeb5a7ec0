package main

// startPage is the output of crabmem without arguments: what to do first, for each use.
const startPage = `crabmem keeps the memory of AI agents in one file on this machine.

Memory for your coding agent:
  crabmem mcp install claude-code        give it tools to remember and recall
  crabmem hooks install claude-code      begin its sessions with your notes

A notebook in the terminal:
  crabmem remember "we deploy on Fridays"
  crabmem recall "when do we deploy?"

Your own agent:
  crabmem init                           choose a model and test it
  crabmem chat                           talk to the agent

To look around:
  crabmem demo                           run the main commands on sample data
  crabmem open                           read and search the memory in a browser
  crabmem help                           list all commands
  crabmem COMMAND --help                 explain a command, with examples
`
