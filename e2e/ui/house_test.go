package ui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// shortTTL is the lifetime of a token that expires during a test.
const shortTTL = 5 * time.Second

const management = "11111111-2222-3333-4444-555555555555"

func TestMain(m *testing.M) {
	companion.Main()
	if len(os.Args) > 1 && (os.Args[1] == "agent" || os.Args[1] == "setup") {
		os.Exit(command.Main(os.Args[1:]))
	}
	code := m.Run()
	if err := theHouse.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// house is one agent with access control and one browser, shared by all tests of the package.
type house struct {
	once    sync.Once
	err     error
	dir     string
	log     bytes.Buffer
	agent   *cluster.Agent
	browser *browser
}

var theHouse house

// open starts the house, or skips the test if there is no Chromium.
func open(t *testing.T) *house {
	t.Helper()
	path := findChromium(t)
	h := &theHouse
	h.once.Do(func() { h.err = h.start(path) })
	if h.err != nil {
		t.Fatalf("%v\n%s", h.err, h.log.String())
	}
	return h
}

// nodeName is the name of the only node. It must appear as text.
const nodeName = `<b>node</b>-` + rightToLeft

func (h *house) start(chromiumPath string) (err error) {
	if h.dir, err = os.MkdirTemp("", "nomad-ui-test-"); err != nil {
		return err
	}
	config := filepath.Join(h.dir, "ui.hcl")
	text := fmt.Sprintf("name = %q\nacl {\n  enabled = true\n  token_min_expiration_ttl = \"1s\"\n}\nui {\n  label {\n"+
		"    text             = \"<i>test</i> cluster\"\n    background_color = \"#7a4100\"\n    text_color       = \"white\"\n  }\n}\n", nodeName)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	h.agent, err = cluster.Start(context.Background(), cluster.Options{Bin: os.Args[0], Dir: filepath.Join(h.dir, "agent"),
		Args: []string{"-dev", "-config=" + config}, Log: &h.log, Secret: management})
	if err != nil {
		return err
	}
	h.browser, err = startBrowser(chromiumPath, filepath.Join(h.dir, "profile"))
	return err
}

func (h *house) close() error {
	if h.dir == "" {
		return nil
	}
	if h.browser != nil {
		h.browser.cancel()
	}
	var err error
	if h.agent != nil {
		err = h.agent.Stop()
	}
	return errors.Join(err, os.RemoveAll(h.dir))
}

// signedIn opens a window whose session has the management token.
func (h *house) signedIn(t *testing.T, allowed ...string) *tab {
	t.Helper()
	return h.with(t, management, allowed...)
}

// with opens a window whose session has a token, or none for "".
func (h *house) with(t *testing.T, token string, allowed ...string) *tab {
	t.Helper()
	p := h.browser.tab(t, h.agent.Address(), allowed...)
	if token != "" {
		script := fmt.Sprintf("if (!sessionStorage.getItem('nomad.token')) sessionStorage.setItem('nomad.token', %q)", token)
		p.onNewDocument(script)
	}
	return p
}

// run registers a job from HCL and returns its ID.
func (h *house) run(t *testing.T, source string) string {
	t.Helper()
	job, err := h.agent.Client.Jobs().ParseHCL(source, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.agent.Client.Jobs().Register(job, nil); err != nil {
		t.Fatal(err)
	}
	return *job.ID
}

// waitAllocs waits until a job has n allocations with a client status, and returns them.
func (h *house) waitAllocs(t *testing.T, job, status string, n int) []*api.AllocationListStub {
	t.Helper()
	var found []*api.AllocationListStub
	testpace.Until(t, fmt.Sprintf("%d allocations of %s are %s", n, job, status), func() bool {
		found = nil
		allocs, _, err := h.agent.Client.Jobs().Allocations(job, true, &api.QueryOptions{})
		if err != nil {
			return false
		}
		for _, a := range allocs {
			if a.ClientStatus == status {
				found = append(found, a)
			}
		}
		return len(found) >= n
	})
	return found
}

// mock returns a job for the mock driver, whose tasks run for an hour.
func mock(id, body string) string {
	return fmt.Sprintf(`job %q {
  %s
  group "web" {
    task "server" {
      driver = "mock_driver"
      config { run_for = "1h" }
      resources {
        cpu    = 20
        memory = 20
      }
    }
  }
}`, id, strings.TrimSpace(body))
}
