package access

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// ask sends a GET request that may last, says when the answer begins, and returns the
// status, what it was told and what ended it.
func (h *house) ask(ctx context.Context, c *http.Client, a *cluster.Agent, path, token string, begun func()) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.Address()+path, nil)
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("X-Nomad-Token", token)
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	first := make([]byte, 1)
	n, _ := resp.Body.Read(first)
	begun()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(first[:n]) + string(text), err
}

// What lasts ends with the right to it: when the token is deleted, when its time is over,
// and when its policy grants nothing any more; over a server and over a client.
func TestAnswersEndWithTheRight(t *testing.T) {
	h := open(t)
	_, _ = h.run("service", "talker", "while true; do echo line; sleep 0.05; done")
	allocs, _, err := h.api.Jobs().Allocations("talker", false, &api.QueryOptions{Namespace: prod})
	h.must(err)
	log := "/v1/client/fs/logs/" + allocs[0].ID + "?task=t&type=stdout&follow=true&plain=true&namespace=prod"
	jobs, _, err := h.api.Jobs().List(&api.QueryOptions{Namespace: prod})
	h.must(err)
	last := uint64(0)
	for _, j := range jobs {
		last = max(last, j.ModifyIndex)
	}
	blocked := fmt.Sprintf("/v1/job/plain?namespace=prod&wait=50s&index=%d", last+1000)
	web := h.web(h.userFiles)
	web.Timeout = 0
	for name, take := range map[string]func(t *testing.T, token *api.ACLToken, policy string){
		"deleted": func(t *testing.T, token *api.ACLToken, _ string) {
			if _, err := h.api.ACLTokens().Delete(token.AccessorID, nil); err != nil {
				t.Fatal(err)
			}
		},
		"over": func(*testing.T, *api.ACLToken, string) {},
		"policy": func(t *testing.T, _ *api.ACLToken, policy string) {
			if _, err := h.api.ACLPolicies().Upsert(&api.ACLPolicy{Name: policy, Rules: `namespace "prod" { policy = "deny" }`}, nil); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for place, agent := range map[string]*cluster.Agent{"server": h.server, "client": h.client} {
			t.Run(name+" through a "+place, func(t *testing.T) {
				policy := "ends-" + name + "-" + place
				h.policy(policy, `namespace "prod" { policy = "write" }`, "")
				want := &api.ACLToken{Type: "client", Policies: []string{policy}}
				if name == "over" {
					want.ExpirationTTL = 8 * time.Second // the log begins before, on a busy machine too
				}
				token, _, err := h.api.ACLTokens().Create(want, nil)
				h.must(err)
				ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second)
				defer cancel()
				ends, lines := make(chan string, 2), make(chan struct{})
				begun := map[string]func(){log: func() { close(lines) }, blocked: func() {}}
				for _, path := range []string{log, blocked} {
					go func() {
						code, text, err := h.ask(ctx, web, agent, path, token.SecretID, begun[path])
						if ctx.Err() != nil {
							text = "it goes on"
						} else if path == blocked && code != http.StatusForbidden {
							text = fmt.Sprintf("the blocking query answered %d %s %v", code, text, err)
						} else if path == log && !strings.Contains(text, "line") {
							text = fmt.Sprintf("the log answered %d %q %v", code, text, err)
						} else {
							text = ""
						}
						ends <- text
					}()
				}
				select {
				case <-lines:
				case text := <-ends:
					t.Fatal(text)
				}
				take(t, token, policy)
				for range 2 {
					if text := <-ends; text != "" {
						t.Error(text)
					}
				}
			})
		}
	}
}
