// Package pb is the protocol of the daemon: crabtalk.proto and the code that
// is generated from it.
package pb

//go:generate go test -run TestGenerated -update .

// Version is that of the operations from 1000 up. It rises when one of them
// changes what it does; additions leave it as it is.
const Version = 3
