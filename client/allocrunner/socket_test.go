package allocrunner_test

import (
	"context"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/internal/connlimit"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
)

func TestTaskSocket(t *testing.T) {
	w := newWorld(t)
	w.api = &taskhook.API{Limit: connlimit.New(taskhook.SocketConns, 100),
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			io.WriteString(rw, "hello "+r.URL.Path+" "+r.Header.Get("X-Nomad-Token"))
		})}
	alloc := allocation(nomad.JobTypeBatch, mockTask("main", lasts("1h")))
	r := w.runner(alloc)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(t.Context()) }()
	socket := filepath.Join(w.dir, "alloc", alloc.ID, "main/secrets/api.sock")
	testpace.Until(t, "the task runs", func() bool { return r.State().ClientStatus == nomad.AllocClientStatusRunning })
	info, err := os.Stat(socket)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Fatalf("socket: %v, %v; want it 0600", info, err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		// The path is longer than a socket address allows: use its directory.
		dir, err := os.Open(filepath.Dir(socket))
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), "api.sock"))
	}}}
	defer client.CloseIdleConnections()
	for _, token := range []string{"", "t"} { // the API itself refuses requests without a token
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://nomad/v1/jobs", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Nomad-Token", token)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if want := "hello /v1/jobs " + token; string(body) != want {
			t.Errorf("body = %q, want %q", body, want)
		}
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("socket after the end: %v, want it gone", err)
	}
	if err := r.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	<-ended
}
