package acl_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

func TestBootstrap_Once(t *testing.T) {
	dir := t.TempDir()
	s, _ := servertest.Start(t, func(c *server.Config) { c.Access.Enabled, c.DataDir = true, dir })
	g := servertest.NewACLServer(t, s)
	if _, err := g.Bootstrap("letmein"); !servertest.IsCoded(err, 400, "invalid acl token") {
		t.Errorf("a secret that is not a UUID: %v", err)
	}
	secret := nomad.NewID()
	first, err := g.Bootstrap(secret)
	if err != nil {
		t.Fatalf("ACL.Bootstrap: %v", err)
	}
	servertest.Equal(t, "secret", first.SecretID, secret)
	servertest.Equal(t, "management", first.Management(), true)
	servertest.Equal(t, "global", first.Global, true)
	servertest.Equal(t, "name", first.Name, "Bootstrap Token")
	if len(first.Hash) == 0 {
		t.Error("the first token has no hash")
	}
	again := fmt.Sprintf("ACL bootstrap already done (reset index: %d)", first.CreateIndex)
	if _, err = g.Bootstrap(""); !servertest.IsCoded(err, 400, again) {
		t.Errorf("the second time: %v, want %s", err, again)
	}
	file := filepath.Join(dir, "server", "acl-bootstrap-reset")
	for text, want := range map[string]string{
		"not a number": "does not contain a decimal index",
		"7\n":          fmt.Sprintf("Invalid bootstrap reset index (specified 7, reset index: %d)", first.CreateIndex),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err = g.Bootstrap(""); !servertest.IsCoded(err, 400, want) {
			t.Errorf("with the file %q: %v, want %s", text, err, want)
		}
	}
	if err := os.WriteFile(file, fmt.Appendf(nil, " %d\n", first.CreateIndex), 0o600); err != nil {
		t.Fatal(err)
	}
	second, err := g.Bootstrap("")
	if err != nil || second.AccessorID == first.AccessorID {
		t.Fatalf("with the index in the file: %v", err)
	}
	if _, err = g.Bootstrap(""); !servertest.IsCoded(err, 400, "Invalid bootstrap reset index") {
		t.Errorf("the file works twice: %v", err)
	}
	var list message.ACLTokenListResponse
	if err := g.Call(second.SecretID, "ACL.ListTokens", &message.ACLTokenListRequest{}, &list); err != nil || len(list.Tokens) != 2 {
		t.Errorf("the second token sees %d tokens, %v", len(list.Tokens), err)
	}
}

func TestBootstrap_Concurrent(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) { c.Access.Enabled = true })
	g := servertest.NewACLServer(t, s)
	if won := race(40, func() error { _, err := g.Bootstrap(""); return err },
		func(err error) bool { return servertest.IsCoded(err, 400, "ACL bootstrap already done") }, t); won != 1 {
		t.Errorf("%d initial tokens were created", won)
	}
}

// race calls fn concurrently and counts the successes. Every failure must be an expected one.
func race(n int, fn func() error, expected func(error) bool, t *testing.T) (won int) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			err := fn()
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
			case !expected(err):
				t.Errorf("unexpected: %v", err)
			}
		})
	}
	wg.Wait()
	return won
}

func TestACL_Disabled(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	g := servertest.NewACLServer(t, s)
	asked := 0
	for _, m := range s.Methods() {
		service, name, _ := strings.Cut(m.Name, ".")
		if service != "ACL" || slices.Contains([]string{"WhoAmI", "CreateClientIntroductionToken"}, name) {
			continue
		}
		err := g.Call("", m.Name, m.NewRequest(), nil)
		if strings.Contains(fmt.Sprint(err), "is of a feature") || strings.Contains(fmt.Sprint(err), "not available yet") {
			continue // not registered yet
		}
		if asked++; !servertest.IsCoded(err, 400, "ACL support disabled") {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
	if asked < 22 {
		t.Errorf("only %d methods were called", asked)
	}
}
