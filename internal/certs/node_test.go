package certs_test

import (
	"context"
	"errors"
	"testing"

	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/internal/testpki"
)

// The HTTP API of another node must have the certificate of a client of the region.
func TestDialNode(t *testing.T) {
	ca, other := testpki.New(t), testpki.New(t)
	caller := testpki.Open(t, ca.Agent("client.global.nomad").Config())
	for name, c := range map[string]struct {
		node testpki.Files
		ok   bool
	}{
		"client":                {ca.Agent("client.global.nomad"), true},
		"another region":        {ca.Agent("client.west.nomad"), false},
		"server":                {ca.Agent("server.global.nomad"), false},
		"another authority":     {other.Agent("client.global.nomad"), false},
		"server that is a node": {ca.Agent("server.global.nomad", "client.global.nomad"), true},
	} {
		cfg := c.node.Config()
		cfg.HTTP, cfg.RPC = true, false
		node := testpki.Open(t, cfg)
		a, b := pair(t)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if conn, err := node.AcceptHTTP(context.Background(), b); err == nil {
				conn.Write([]byte("!"))
			}
			b.Close()
		}()
		conn, err := caller.DialNode(context.Background(), a, "global")
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
		a.Close()
		<-done
		if (err == nil) != c.ok {
			t.Errorf("%s: %v, want success %v", name, err, c.ok)
		}
	}
	a, _ := pair(t)
	var none *certs.Store
	if _, err := none.DialNode(context.Background(), a, "global"); !errors.Is(err, certs.ErrNoTLS) {
		t.Errorf("without TLS: %v", err)
	}
}
