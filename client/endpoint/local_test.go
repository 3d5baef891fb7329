package endpoint_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// A node answers requests of its own agent about itself without a server. Tokens are still
// verified by the servers.
func TestLocal_AnswersItsAgent(t *testing.T) {
	f := clienttest.StartServer(t)
	dir := clienttest.Dir(t)
	n := clienttest.Start(t, clienttest.Config(dir, f.Addr()))
	a := clienttest.Alloc(map[string]any{"run_for": "1h"})
	f.Place(a)
	f.Until(t, "the allocation runs", func() bool { return f.Status(a) == nomad.AllocClientStatusRunning })
	local := filepath.Join(dir, "alloc", a.ID, "main", "local", "hello.txt")
	if err := os.WriteFile(local, []byte("hello"), 0o644); err != nil {
		t.Fatal(err)
	}
	good := ""
	f.Until(t, "the node has a token", func() bool {
		for good = range f.Tokens {
			return true
		}
		return false
	})
	stat := func(alloc, region, token string) (*message.AllocFileInfo, error) {
		req := &message.FsStatRequest{AllocID: alloc, Path: "/main/local/hello.txt",
			QueryOptions: message.QueryOptions{Region: region, AuthToken: token}}
		var out message.FsStatResponse
		err := n.Local("FileSystem.Stat").Call(t.Context(), "FileSystem.Stat", req, &out)
		return out.Info, err
	}
	cat := func(alloc, token string) (string, error) {
		s, err := n.Local("FileSystem.Stream").Stream(t.Context(), "FileSystem.Stream")
		return readFile(s, err, &message.FsStreamRequest{AllocID: alloc, Path: "main/local/hello.txt", PlainText: true,
			QueryOptions: message.QueryOptions{AuthToken: token}})
	}
	for what, c := range map[string]struct{ alloc, region, token, name string }{
		"own, no token":        {a.ID, "", "", "hello.txt"},
		"own, valid token":     {a.ID, "global", good, "hello.txt"},
		"unknown allocation":   {nomad.NewID(), "", "", "elsewhere"},
		"another region":       {a.ID, "far", "", "elsewhere"},
		"elsewhere, any token": {nomad.NewID(), "", "bad", "elsewhere"},
	} {
		if info, err := stat(c.alloc, c.region, c.token); err != nil || info.Name != c.name {
			t.Errorf("%s: %+v, %v, want %s", what, info, err, c.name)
		}
	}
	if _, err := stat(a.ID, "", "bad"); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("a bad token: %v", err)
	}
	if text, err := cat(a.ID, "bad"); text != "" || err == nil || err.Error() != apierror.ErrPermissionDenied.Error() {
		t.Errorf("a bad token reads %q, %v", text, err)
	}
	if text, err := cat(nomad.NewID(), ""); text != "elsewhere" {
		t.Errorf("a file elsewhere: %q, %v", text, err)
	}
	if n.Local("Job.List") != nil {
		t.Error("Job.List is answered by the node")
	}

	f.Stop()
	if info, err := stat(a.ID, "", ""); err != nil || info.Size != 5 {
		t.Errorf("without a server: %+v, %v", info, err)
	}
	if text, err := cat(a.ID, ""); text != "hello" {
		t.Errorf("without a server: %q, %v", text, err)
	}
	var host message.ClientStatsResponse
	if err := n.Local("ClientStats.Stats").Call(t.Context(), "ClientStats.Stats", &message.NodeSpecificRequest{NodeID: n.NodeID()},
		&host); err != nil || host.HostStats.Memory.Total == 0 {
		t.Errorf("stats without a server: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	req := &message.FsStatRequest{AllocID: a.ID, Path: "/main/local/hello.txt", QueryOptions: message.QueryOptions{AuthToken: good}}
	if err := n.Local("FileSystem.Stat").Call(ctx, "FileSystem.Stat", req, nil); err == nil {
		t.Error("a token is accepted without a server")
	}
}
