//go:build linux && faults

package faults_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/faults"
)

// beyond is the additional time for all tests, on top of FAULTS.
const beyond = 10 * time.Minute

// duration is the duration of the faults in all tests together.
func duration() (time.Duration, error) {
	if text := os.Getenv("FAULTS"); text != "" {
		return time.ParseDuration(text)
	}
	return 5 * time.Minute, nil
}

// TestMain bounds the complete suite, whatever hangs.
func TestMain(m *testing.M) {
	d, err := duration()
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAULTS is no duration such as 30m:", err)
		os.Exit(2)
	}
	time.AfterFunc(d+beyond, func() { panic(fmt.Sprintf("the suite took longer than %v", d+beyond)) })
	os.Exit(m.Run())
}

// start starts a cluster of servers for the test.
func start(t *testing.T, servers int, config string) *faults.Cluster {
	t.Helper()
	return startWith(t, faults.Options{Servers: servers, Config: config})
}

// startWith starts a cluster for the test.
func startWith(t *testing.T, o faults.Options) *faults.Cluster {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to make network namespaces and control groups: run sudo make test-faults")
	}
	if w, err := faults.NewNetwork(0); errors.Is(err, fs.ErrPermission) {
		t.Skipf("needs CAP_SYS_ADMIN and CAP_NET_ADMIN, which a container must be given: %v", err)
	} else if err == nil {
		w.Close()
	}
	o.Bin, o.Dir = cluster.Built(t), directory(t)
	c, err := faults.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close the cluster: %v", err)
		}
	})
	return c
}

// directory returns a directory below which users of tasks can go.
func directory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "faults-cluster-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
