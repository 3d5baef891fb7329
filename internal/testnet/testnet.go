// Package testnet gives tests loopback listeners and free ports without races: a
// port is bound as long as its test needs it, never looked up and hoped for.
package testnet

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
)

// Listen returns a TCP listener on a free port of 127.0.0.1. It is closed when the
// test ends.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen on loopback: %v", err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// Any is the address for servers that bind a free port themselves and tell it.
const Any = "127.0.0.1:0"

// Block is a run of ports of an address of 127.0.0.0/8 that no other test has, for
// programs that must be told their ports before they start.
type Block struct{ ip string }

// lockPort is bound on an address as long as a block of it is used.
const lockPort = 4599

// addresses is how many addresses there are, 127.77.0.1 to 127.77.249.250.
const addresses = 250 * 250

// next is the number of the address to try next. Processes begin at different ones, and
// a process takes each only once in a round: a child that has been forked and not yet
// executed holds the listeners of the test before for a moment.
var next atomic.Uint32

func init() { next.Store(uint32(os.Getpid()) * 250 % addresses) }

// Take returns an unused loopback address above 127.77.0.0; all of its ports but one
// are the test's own. It is free again when the test ends.
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
