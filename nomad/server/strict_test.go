package server_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// A server that admits nodes without an introduction reports this at its start and in its
// health.
func TestLaxIntroductionIsReported(t *testing.T) {
	for enforcement, want := range map[string]string{"": `"warn"`, nomad.NodeIntroductionEnforcementWarn: `"warn"`,
		nomad.NodeIntroductionEnforcementNone: `"none"`, nomad.NodeIntroductionEnforcementStrict: ""} {
		t.Run(enforcement, func(t *testing.T) {
			log := &servertest.Log{}
			s, _ := servertest.StartLogging(t, func(c *server.Config) { c.Introduction.Enforcement = enforcement }, slog.New(slog.NewTextHandler(log, nil)))
			var health message.OperatorHealthReply
			servertest.Eventually(t, func() bool {
				return s.Call(servertest.Context(t), "Operator.ServerHealth", &message.GenericRequest{}, &health) == nil
			})
			if got := strings.Join(health.Warnings, " "); (got == "") != (want == "") || !strings.Contains(got, want) {
				t.Errorf("health warns %q", got)
			}
			if got := log.Has("level=WARN", "nodes can join without an introduction token", "strict"); got != (want != "") {
				t.Errorf("the log warns: %t", got)
			}
		})
	}
}

// The client in the leader's process joins without a token, because the process has the keys.
func TestOwnClientNeedsNoIntroduction(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) { c.Introduction.Enforcement = nomad.NodeIntroductionEnforcementStrict })
	req := &message.NodeRegisterRequest{Node: servertest.MockNode(), WriteRequest: message.WriteRequest{Region: "global"}}
	if out := servertest.Read[message.NodeUpdateResponse](t, s, "Node.Register", req); out.SignedIdentity == nil {
		t.Error("the client of this agent gets no identity")
	}
	if err := servertest.NewFakeNode(t, s).Register(""); err == nil {
		t.Error("an unknown node joins")
	}
}
