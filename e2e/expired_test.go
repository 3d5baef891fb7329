package e2e

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/nomad"
)

// A node that was offline until its identity expired returns by itself, even if introductions are
// enforced: it is registered and has its secret ID. Its task keeps running.
func TestExpiredNodeReturns(t *testing.T) {
	f := newFleet(t, "server {\n  client_introduction {\n    enforcement = \"strict\"\n  }\n}\n")
	intro, _, err := f.srv.Client.ACLIdentity().CreateClientIntroductionToken(&api.ACLIdentityClientIntroductionTokenRequest{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NOMAD_CLIENT_INTRO_TOKEN", intro.JWT)
	n := f.join("worker", "client {}\n")
	t.Setenv("NOMAD_CLIENT_INTRO_TOKEN", "")
	id := nodeID(t, n)
	jobID, _ := run(t, f.srv, job("web", "", shell("echo $$; exec sleep 3600")))
	defer f.purge()
	al := await(t, f.srv, jobID, "running", 1)[0]
	pid := logOf(t, f.srv, al)
	if err := n.Kill(); err != nil {
		t.Fatal(err)
	}

	m, past := stolenKeys(t, f.srv), time.Now().Add(-48*time.Hour)
	expired := m.Sign(map[string]any{"nomad_node_id": id, "nomad_node_pool": "default", "nomad_node_datacenter": "dc1", "aud": "nomadproject.io",
		"sub": "node:global:default:" + id + ":default", "jti": nomad.NewID(), "iat": past.Unix(), "nbf": past.Unix(), "exp": past.Add(24 * time.Hour).Unix()})
	db, err := state.Open(state.Config{Dir: filepath.Join(n.Dir, "data", "client"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.PutNodeIdentity(nomad.NewToken(expired, m.Kid)); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	n = again(t, n)
	got, err := f.srv.Client.Nodes().Identity().Get(&api.NodeIdentityGetRequest{NodeID: id}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if end, ok := got.Claims["exp"].(float64); !ok || time.Until(time.Unix(int64(end), 0)) < 23*time.Hour {
		t.Errorf("the node that came back has the identity %v", got.Claims)
	}
	if back := onlyAlloc(t, f.srv, jobID); back.ID != al.ID || logOf(t, f.srv, al) != pid || nodeID(t, n) != id {
		t.Error("the end of the identity cost the task")
	}
	next, _ := run(t, f.srv, job("next", "", shell("exec sleep 3600")))
	await(t, f.srv, next, "running", 1)
}
