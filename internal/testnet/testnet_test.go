package testnet_test

import (
	"net"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testnet"
)

func TestTakeGivesEachTestItsOwnAddress(t *testing.T) {
	a, b := testnet.Take(t), testnet.Take(t)
	if a.IP() == b.IP() {
		t.Fatalf("Take() = %s twice", a.IP())
	}
	for _, block := range []*testnet.Block{a, b} {
		ln, err := net.Listen("tcp", block.Addr(4646))
		if err != nil {
			t.Fatalf("listen on %s: %v", block.Addr(4646), err)
		}
		ln.Close()
	}
}

func TestListenClosesWithTheTest(t *testing.T) {
	var addr string
	t.Run("inner", func(t *testing.T) { addr = testnet.Listen(t).Addr().String() })
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Fatalf("%s still accepts after its test", addr)
	}
}
