package secret

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/zalando/go-keyring"
)

// Keyring stores keys by the ID of their store. The zero Keyring is absent.
type Keyring struct {
	// Get returns a key. Errors wrap keyring.ErrNotFound of
	// github.com/zalando/go-keyring if the keyring does not contain it.
	Get func(id string) (string, error)
	// Set stores a key.
	Set func(id, key string) error
}

// KeyringVariable is the environment variable that disables the keyring of the
// system if its value is KeyringOff.
const (
	KeyringVariable = "CRABMEM_KEYRING"
	KeyringOff      = "off"
)

// keyringWait limits each keyring call: a user can unlock the keyring in that time.
const keyringWait = 15 * time.Second

// service is the name under which keys are in the keyring.
const service = "crabmem"

var (
	errNoKeyring = errors.New("there is no keyring")
	errNoKey     = keyring.ErrNotFound
)

// System returns the keyring of the operating system. It is absent if the system
// has no keyring that runs, or if the environment disables it.
func System(getenv func(string) string) Keyring {
	if getenv != nil && getenv(KeyringVariable) == KeyringOff || !hasKeyring() {
		return Keyring{}
	}
	return Keyring{
		Get: func(id string) (string, error) { return keyring.Get(service, id) },
		Set: func(id, key string) error {
			err := keyring.Set(service, id, key)
			if err != nil && isAbsent(err) {
				return errNoKeyring
			}
			return err
		},
	}
}

// isAbsent reports whether the session bus of Linux is not running or has no
// Secret Service.
func isAbsent(err error) bool {
	_, dial := errors.AsType[*net.OpError](err)
	return dial || strings.Contains(err.Error(), "org.freedesktop.secrets was not provided") || strings.Contains(err.Error(), "not activatable")
}

// create stores a new key and reads it back. It returns errNoKeyring if the
// keyring is absent.
func (k Keyring) create(id, key string) error {
	if k.Set == nil {
		return errNoKeyring
	}
	_, err := call(func() (string, error) { return "", k.Set(id, key) })
	if err != nil {
		return err
	}
	got, err := k.get(id)
	if err == nil && got != key {
		err = errors.New("the keyring returns another key than it received")
	}
	return err
}

func (k Keyring) get(id string) (string, error) {
	if k.Get == nil {
		return "", errNoKeyring
	}
	return call(func() (string, error) { return k.Get(id) })
}

// unanswered is the number of calls that a keyring did not answer in time. While
// there is one, other calls fail immediately: a prompt is open, or the keyring
// hangs.
var unanswered struct {
	sync.Mutex
	n int
}

// call calls do with a time limit. After the limit do continues, and its result is
// discarded.
func call(do func() (string, error)) (string, error) {
	unanswered.Lock()
	hangs := unanswered.n > 0
	unanswered.Unlock()
	if hangs {
		return "", errors.New("an earlier request to the keyring still waits")
	}
	type answer struct {
		text string
		err  error
	}
	answers := make(chan answer, 1)
	ended, late := false, false // guarded by unanswered
	go func() {
		var a answer
		defer func() {
			if p := recover(); p != nil { // a reply of another type than the library expects
				a = answer{err: fmt.Errorf("invalid reply of the keyring: %v", p)}
			}
			answers <- a
			unanswered.Lock()
			defer unanswered.Unlock()
			ended = true
			if late {
				unanswered.n--
			}
		}()
		a.text, a.err = do()
	}()
	timer := time.NewTimer(keyringWait)
	defer timer.Stop()
	select {
	case a := <-answers:
		return a.text, a.err
	case <-timer.C:
	}
	unanswered.Lock()
	defer unanswered.Unlock()
	if ended {
		a := <-answers
		return a.text, a.err
	}
	late = true
	unanswered.n++
	return "", fmt.Errorf("no reply within %v", keyringWait)
}
