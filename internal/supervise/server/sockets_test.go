package server_test

import (
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// socket is a UDP socket of an agent.
func socket(t *testing.T) (*net.UDPConn, syscall.RawConn) {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return c, raw
}

// A socket outlives its agent, also if the supervisor was killed or replaced, and what was sent meanwhile is read from it.
func TestKeptSockets(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for _, tc := range []struct {
		name   string
		during func(r *rig, c *supervise.Client) // while the first agent runs
		after  func(r *rig, c *supervise.Client) // while the next one runs
	}{
		{name: "next agent"},
		{name: "supervisor killed", during: func(r *rig, c *supervise.Client) {
			r.crash()
			testpace.Succeeds(r.t, "the next supervisor", func() error { _, err := c.Tasks(t.Context()); return err })
		}},
		{name: "supervisor upgraded by the next agent", after: func(r *rig, c *supervise.Client) {
			if err := c.Upgrade(t.Context()); err != nil {
				r.t.Fatal(err)
			}
			if _, err := c.Tasks(t.Context()); err != nil { // connects again
				r.t.Fatal(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			conn, raw := socket(t)
			first := r.client()
			first.KeepSockets(t.Context(), []syscall.RawConn{raw}) // no supervisor runs yet
			r.start(first, r.spec("sleep 1000"))
			if tc.during != nil {
				tc.during(r, first)
			}
			addr := conn.LocalAddr().String()
			conn.Close()
			first.Close()
			peer, err := net.Dial("udp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer peer.Close()
			if _, err := peer.Write([]byte("question")); err != nil {
				t.Fatal(err)
			}
			next := r.client()
			if tc.after != nil {
				tc.after(r, next)
			}
			got := next.KeptSockets(t.Context())
			if len(got) != 1 {
				t.Fatalf("KeptSockets() = %v, want one", got)
			}
			kept, err := net.FilePacketConn(got[0])
			got[0].Close()
			if err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 20)
			kept.SetReadDeadline(time.Now().Add(5 * time.Second)) //nolint:errcheck // a socket supports deadlines
			if n, _, err := kept.ReadFrom(buf); err != nil || string(buf[:n]) != "question" {
				t.Errorf("ReadFrom() = %q, %v, want the question", buf[:n], err)
			}
			kept.Close()
			next.KeepSockets(t.Context(), nil)
			testpace.Until(t, "the socket is closed", func() bool {
				c, err := net.ListenPacket("udp", addr)
				if err == nil {
					c.Close()
				}
				return err == nil
			})
		})
	}
}
