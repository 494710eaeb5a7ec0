// Package mcpserver contains the parts of the server of the Model Context Protocol
// that do not depend on the command: connections, their limits, and the log of
// refusals.
package mcpserver
