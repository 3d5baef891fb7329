package vault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/internal/testvault"
	"github.com/open-nomad/open-nomad/internal/vault"
)

// cluster returns a cluster at an address.
func cluster(t *testing.T, name, address string) *vault.Cluster {
	t.Helper()
	c, err := vault.New(vault.Settings{Name: name, Address: address})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDetect checks the attributes of a real answer, without any token, for a sealed and an unsealed cluster.
func TestDetect(t *testing.T) {
	t.Setenv("VAULT_TOKEN", "canary") // the stand-in has a fault for a token
	v := testvault.Start(t, testvault.Config{})
	for _, name := range []string{vault.DefaultCluster, "west"} {
		v.Seal()
		changes := make(chan Change, 9)
		d := New([]*vault.Cluster{cluster(t, name, v.Addr())}, func(c Change) { changes <- c }, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		prefix := "vault."
		if name != vault.DefaultCluster {
			prefix += name + "."
		}
		if got, want := (<-changes).After, map[string]string{prefix + "version": "1.21.1"}; !maps.Equal(got, want) {
			t.Errorf("sealed: %v, want %v", got, want)
		}
		v.Unseal()
		d.Again()
		got := (<-changes).After
		if got[prefix+"accessible"] != "true" || got[prefix+"version"] != "1.21.1" || got[prefix+"cluster_id"] == "" || got[prefix+"cluster_name"] == "" ||
			len(got) != 4 {
			t.Errorf("unsealed: %v", got)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run() = %v", err)
		}
	}
}

// run runs a detector with answers of a list, until they end. It returns the changes, when each was asked, and the log.
func run(t *testing.T, answers []any) (changes []string, asked []time.Duration, log string) {
	t.Helper()
	c := cluster(t, vault.DefaultCluster, "http://vault.test")
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		var out bytes.Buffer
		d := New([]*vault.Cluster{c}, func(c Change) {
			changes = append(changes, fmt.Sprint(c.After["vault.accessible"], " ", c.After["vault.version"], " ", c.After["vault.cluster_id"]))
		}, slog.New(slog.NewTextHandler(&out, nil)))
		d.ask = func(context.Context, *vault.Cluster) (status, error) {
			if len(asked) == len(answers) {
				cancel()
				return status{}, ctx.Err()
			}
			asked = append(asked, time.Since(start))
			if err, ok := answers[len(asked)-1].(error); ok {
				return status{}, err
			}
			return answers[len(asked)-1].(status), nil
		}
		if err := d.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Run() = %v", err)
		}
		log = out.String()
	})
	return changes, asked, log
}

// TestChanges checks that a cluster that comes, goes, seals or is upgraded changes the attributes, that a short outage does
// not, and that each of these is logged once.
func TestChanges(t *testing.T) {
	up, sealed, gone := status{version: "Vault 1.0.0", id: "a"}, status{version: "1.0.0", sealed: true}, errors.New("refused")
	newer := status{version: "2.0.0", id: "a"}
	got, asked, log := run(t, []any{gone, gone, gone, gone, up, up, gone, gone, up, gone, gone, gone, gone, up, sealed, sealed, up, newer})
	want := []string{"true 1.0.0 a", " 1.0.0 a", "true 1.0.0 a", " 1.0.0 a", "true 1.0.0 a", "true 2.0.0 a"}
	if !slices.Equal(got, want) {
		t.Errorf("changes = %q, want %q", got, want)
	}
	if first := []time.Duration{0, 15, 30, 45, 60, 120}; !slices.Equal(asked[:6], seconds(first)) {
		t.Errorf("asked after %v, want %v", asked[:6], seconds(first))
	}
	if n := strings.Count(log, "detect Vault"); n != 3 || strings.Count(log, "Vault is sealed") != 1 {
		t.Errorf("log:\n%s", log)
	}
}

func seconds(list []time.Duration) (out []time.Duration) {
	for _, d := range list {
		out = append(out, d*time.Second)
	}
	return out
}

// TestFacts_Left checks that values that do not fit are left out.
func TestFacts_Left(t *testing.T) {
	got, _, log := run(t, []any{status{version: "1.0.0", id: "a\x1b[2J", name: strings.Repeat("a", 300)}})
	if want := []string{"true 1.0.0 "}; !slices.Equal(got, want) {
		t.Errorf("changes = %q, want %q", got, want)
	}
	if strings.Count(log, "is left out") != 2 || strings.Contains(log, "2J") {
		t.Errorf("log:\n%s", log)
	}
}

// TestAsk checks that answers that are not those of Vault are errors without their text.
func TestAsk(t *testing.T) {
	for name, body := range map[string]string{"page": "<html>canary", "empty": "{}", "type": `{"version": ["canary"]}`, "null": "null"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }))
		got, err := ask(t.Context(), cluster(t, vault.DefaultCluster, s.URL))
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		s.Close()
	}
}
