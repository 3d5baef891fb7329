package harness

import (
	"context"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/internal/testtokens"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/snapshot"
)

// DialSocket opens a connection to the socket of a task.
func DialSocket(t *testing.T, h Holder) net.Conn {
	t.Helper()
	c, err := SocketClient(t, h).Transport.(*http.Transport).DialContext(t.Context(), "unix", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(Patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// StolenKeys is stolen if there may be no RSA key.
func StolenKeys(t *testing.T, a *cluster.Agent) testtokens.Maker {
	t.Helper()
	resp, err := http.Get(a.Address() + "/v1/operator/snapshot")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	archive, err := snapshot.Open(resp.Body, TempDir(t))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	r, err := archive.State()
	if err != nil {
		t.Fatal(err)
	}
	store, err := fsm.ReadSnapshot(r, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	m := testtokens.Maker{Now: time.Now()}
	for k := range store.Snapshot().RootKeys(nil) {
		dek, der, err := keyring.AEAD{}.Unwrap(t.Context(), k.WrappedKeys[0])
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case k.State == rootkey.Active:
			m.Kid, m.Key = k.KeyID, ed25519.NewKeyFromSeed(dek)
		case len(der) > 0:
			var key *rsa.PrivateKey
			if key, err = x509.ParsePKCS1PrivateKey(der); err != nil {
				t.Fatal(err)
			}
			m.RSAKid, m.RSA = k.KeyID, key
		}
	}
	if m.Key == nil {
		t.Fatal("the snapshot holds no Ed25519 key")
	}
	return m
}

// Holder is a running task with tokens.
type Holder struct {
	Alloc   *api.AllocationListStub
	Token   string // for this cluster
	AWS     string // for another audience
	Secrets string // directory, which root can read
}

// Hold runs a task with tokens until the test ends.
func Hold(t *testing.T, a *cluster.Agent, data, id string) Holder {
	t.Helper()
	job := OneTask(id, "/bin/sleep", "600")
	yes := api.WorkloadIdentity{Name: "default", Env: true, File: true}
	job.TaskGroups[0].Tasks[0].Identities = []*api.WorkloadIdentity{&yes,
		{Name: "aws", Audience: []string{"sts.amazonaws.com"}, File: true, TTL: time.Hour}}
	h := Holder{Alloc: Register(t, a, job, "running")}
	h.Secrets = filepath.Join(data, "alloc", h.Alloc.ID, "t", "secrets")
	h.Token, h.AWS = Content(t, h.Secrets+"/nomad_token"), Content(t, h.Secrets+"/nomad_aws.jwt")
	return h
}

// SocketClient returns a client of a task's API socket.
func SocketClient(t *testing.T, h Holder) *http.Client {
	t.Helper()
	dir, err := os.Open(h.Secrets) // the path is longer than an address may be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/api.sock", dir.Fd()))
		}}}
}
