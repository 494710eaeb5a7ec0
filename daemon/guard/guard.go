// Package guard protects an HTTP server of this machine: it checks the names in the
// headers Host and Origin, bounds the connections that have not proven who they are, and
// bounds the log lines about refused requests.
package guard
