// Package testnet provides loopback listeners and free ports for tests without races: a port stays
// bound or reserved as long as its test needs it.
package testnet

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Listen returns a TCP listener on a free port of 127.0.0.1. It is closed when the test ends.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen on loopback: %v", err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// ListenAgain listens on an address on which this process listened before. A child that was forked meanwhile holds the old
// listener until its execve, so an address in use is tried again.
func ListenAgain(addr string) (net.Listener, error) {
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		ln, err := net.Listen("tcp", addr)
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(deadline) {
			return ln, err
		}
	}
}

// Any is the address for servers that bind a free port and report it.
const Any = "127.0.0.1:0"

// Block is an exclusive loopback address in 127.0.0.0/8, for programs that need to know their ports
// before they start.
type Block struct{ ip string }

// lockPort is bound while a block's address is used.
const lockPort = 4599

// addresses is the number of addresses, 127.77.0.1 to 127.77.249.250.
const addresses = 250 * 250

// next is the number of the next address to try. Processes begin at different numbers, and use each
// only once per round: a forked child before its execve holds the listeners of the previous test
// for a moment.
var next atomic.Uint32

func init() { next.Store(uint32(os.Getpid()) * 250 % addresses) }

// Take returns an unused loopback address. All of its ports except one belong to the test, until it
// ends.
func Take(t testing.TB) *Block {
	t.Helper()
	for range addresses {
		i := next.Add(1) % addresses
		ip := fmt.Sprintf("127.77.%d.%d", i/250, i%250+1)
		lock, err := net.Listen("tcp", fmt.Sprintf("%s:%d", ip, lockPort))
		if err != nil {
			continue
		}
		t.Cleanup(func() { lock.Close() })
		return &Block{ip: ip}
	}
	t.Fatal("no loopback address is free")
	return nil
}

// IP returns the address of the block.
func (b *Block) IP() string { return b.ip }

// Addr returns a port of the block as "host:port".
func (b *Block) Addr(port int) string { return fmt.Sprintf("%s:%d", b.ip, port) }
