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

// ask sends a GET request that may block or stream. It calls begun when the answer begins, and
// returns the status, the body and the error that ended it.
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

// A stream or blocking query ends when the right to it ends: the token is deleted or expires, or
// its policy is changed; through a server and through a client.
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
	blocked := fmt.Sprintf("/v1/job/plain?namespace=prod&wait=5m&index=%d", last+1000)
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
				for ttl := 8 * time.Second; ; ttl *= 2 { // on a busy machine it may expire before the log begins
					if name == "over" {
						want.ExpirationTTL = ttl
					}
					token, _, err := h.api.ACLTokens().Create(want, nil)
					h.must(err)
					late := h.ends(t, web, agent, [2]string{log, blocked}, token.SecretID, func() { take(t, token, policy) })
					if name != "over" || !late || ttl > time.Minute {
						if late {
							t.Error("the log was rejected")
						}
						return
					}
				}
			})
		}
	}
}

// ends opens a log stream and a blocking query until take removes the right to them, and checks
// that both end. It returns whether the log was rejected from the start.
func (h *house) ends(t *testing.T, web *http.Client, a *cluster.Agent, paths [2]string, token string, take func()) (late bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	type end struct {
		late bool
		text string
	}
	ends, lines := make(chan end, 2), make(chan struct{})
	for i, path := range paths {
		begun := func() {}
		if i == 0 {
			begun = func() { close(lines) }
		}
		go func() {
			code, text, err := h.ask(ctx, web, a, path, token, begun)
			switch {
			case ctx.Err() != nil:
				ends <- end{text: path + " goes on"}
			case i == 0 && code == http.StatusForbidden:
				ends <- end{late: true}
			case i == 0 && !strings.Contains(text, "line"), i == 1 && code != http.StatusForbidden:
				ends <- end{text: fmt.Sprintf("%s answered %d %q %v", path, code, text, err)}
			default:
				ends <- end{}
			}
		}()
	}
	left := 2
	check := func(e end) {
		left--
		late = late || e.late
		if e.text != "" {
			t.Error(e.text)
		}
	}
	for begun := false; !begun && left > 0; {
		select {
		case <-lines:
			begun = true
		case e := <-ends:
			check(e)
		}
	}
	take()
	for left > 0 {
		check(<-ends)
	}
	return late
}
