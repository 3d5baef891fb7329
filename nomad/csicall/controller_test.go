package csicall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/csitest"
)

// withController registers nodes n1, n2, ... with a controller plugin. A letter stands for one: h is healthy, u is unhealthy,
// d is healthy on a node that is down.
func withController(t *testing.T, log *testlog.Log, nodes string) {
	for i, kind := range nodes {
		n := *log.Node(t, func(n *nomad.Node) { n.ID = fmt.Sprintf("n%d", i+1) })
		for _, e := range csitest.Place(&n, "ebs", csi.PluginController) {
			log.Must(t, e.Type, e.Body)
		}
		log.Must(t, message.NodeRegisterRequestType, &message.NodeRegisterRequest{Node: &n})
		switch kind {
		case 'u':
			ill := *n.CSIControllerPlugins["ebs"]
			ill.Healthy = false
			n.CSIControllerPlugins = map[string]*nomad.CSIInfo{"ebs": &ill}
			log.Must(t, message.NodeRegisterRequestType, &message.NodeRegisterRequest{Node: &n})
		case 'd':
			log.Must(t, message.NodeUpdateStatusRequestType, &message.NodeUpdateStatusRequest{NodeID: n.ID, Status: nomad.NodeStatusDown})
		}
	}
}

func TestController(t *testing.T) {
	plugin := errors.New("rpc error: code = Internal desc = disk is broken")
	retryable := fmt.Errorf("%w: plugin ebs for type csi-controller not found", csi.ErrRetryable)
	for name, c := range map[string]struct {
		nodes  string
		remote []string
		errs   map[string]error // by node
		calls  string
		want   string // in the error
	}{
		"no plugin":           {"", nil, nil, "", "plugin missing: ebs"},
		"none is healthy":     {"uu", nil, nil, "", `failed to find instances of controller plugin "ebs"`},
		"none is ready":       {"d", nil, nil, "", `failed to find instances of controller plugin "ebs"`},
		"the first":           {"hh", nil, nil, "n1 CSI", ""},
		"the first healthy":   {"udh", nil, nil, "n3 CSI", ""},
		"another server":      {"h", []string{"n1"}, nil, "n1 ClientCSI", ""},
		"error of the plugin": {"hh", nil, map[string]error{"n1": plugin}, "n1 CSI", "disk is broken"},
		"no instance":         {"hh", nil, map[string]error{"n1": retryable}, "n1 CSI, n2 CSI", ""},
		"not connected":       {"hh", nil, map[string]error{"n1": apierror.ErrNoNodeConn}, "n1 CSI, n2 CSI", ""},
		"unknown to a server": {"hh", []string{"n1"}, map[string]error{"n1": apierror.UnknownNode("n1")}, "n1 ClientCSI, n2 CSI", ""},
		"an agent of Nomad 1": {"hh", nil, map[string]error{"n1": apierror.NoMethod("CSI.ControllerAttachVolume", false)},
			"n1 CSI, n2 CSI", ""},
		"lost during the call": {"hh", nil, map[string]error{"n1": apierror.ErrLost}, "n1 CSI", "connection lost"},
		"no instance on any": {"hh", nil, map[string]error{"n1": retryable, "n2": retryable}, "n1 CSI, n2 CSI",
			`failed to find clients running controller plugin "ebs"`},
		"no instance, no leader":   {"h", nil, map[string]error{"n1": errors.New("No cluster leader")}, "n1 CSI", "No cluster leader"},
		"unhealthy between others": {"huh", nil, map[string]error{"n1": retryable}, "n1 CSI, n3 CSI", ""},
	} {
		t.Run(name, func(t *testing.T) {
			log := testlog.New(nil)
			withController(t, log, c.nodes)
			f := &fleet{remote: map[string]bool{}, answer: func(_ context.Context, node string) error { return c.errs[node] }}
			for _, n := range c.remote {
				f.remote[n] = true
			}
			req := &message.ClientCSIControllerAttachVolumeRequest{CSIControllerQuery: message.CSIControllerQuery{PluginID: "ebs"}}
			err := newCaller(f, log).Controller(t.Context(), "AttachVolume", req, nil)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("Controller() = %v, want %q", err, c.want)
			}
			if got := strings.ReplaceAll(strings.Join(f.calls, ", "), ".ControllerAttachVolume", ""); got != c.calls {
				t.Errorf("calls are %q, want %q", got, c.calls)
			}
			if n := len(f.calls); n > 0 && !strings.HasPrefix(f.calls[n-1], req.ControllerNodeID+" ") {
				t.Errorf("the request names node %q, the last call is %q", req.ControllerNodeID, f.calls[n-1])
			}
			if slices.ContainsFunc(f.tokens, func(token string) bool { return token != "" }) {
				t.Error("a node got the token of a server")
			}
		})
	}
}
