package sdk_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// Routes that dashboards request from an agent and its node.
func TestSDKAgentReads(t *testing.T) {
	a := harness.DevAgent(t, "-node=n1", "-meta=rack=r1")
	c, err := sdk.NewClient(&sdk.Config{Address: a.Address()})
	if err != nil {
		t.Fatal(err)
	}
	callAll(t, &bench{Client: c, node: harness.NodeID(t, a)}, sdkAgentReads)
}

var sdkAgentReads = []sdkCall{
	{"Nodes.Stats has disks", func(b *bench) error {
		return result(b.Nodes().Stats(b.node, nil))(func(s *sdk.HostStats) bool {
			return len(s.DiskStats) > 0 && s.DiskStats[0].Mountpoint != "" && s.DiskStats[0].Size > 0 && s.AllocDirStats.Size > 0
		})
	}},
	{"Agent.GetSchedulerWorkersInfo", func(b *bench) error {
		return result(b.Agent().GetSchedulerWorkersInfo(nil))(func(s *sdk.AgentSchedulerWorkersInfo) bool {
			return s.ServerID == "n1.global" && len(s.Schedulers) > 0 && !slices.ContainsFunc(s.Schedulers,
				func(w sdk.AgentSchedulerWorkerInfo) bool {
					_, err := time.Parse(time.RFC3339Nano, w.Started)
					return err != nil || len(w.ID) != 36 || w.Status != "Started" || w.WorkloadStatus == "" ||
						!slices.Contains(w.EnabledSchedulers, "_core")
				})
		})
	}},
	{"Agent.GetSchedulerWorkerConfig", func(b *bench) error {
		return result(b.Agent().GetSchedulerWorkerConfig(nil))(func(s *sdk.SchedulerWorkerPoolArgs) bool {
			return s.NumSchedulers > 0 && slices.Contains(s.EnabledSchedulers, "service") && slices.Contains(s.EnabledSchedulers, "_core")
		})
	}},
	{"Agent.SetSchedulerWorkerConfig", func(b *bench) error {
		before, err := b.Agent().GetSchedulerWorkerConfig(nil)
		if err != nil {
			return err
		}
		_, err = b.Agent().SetSchedulerWorkerConfig(sdk.SchedulerWorkerPoolArgs{NumSchedulers: 1, EnabledSchedulers: []string{"none"}}, nil)
		if err == nil || !strings.Contains(err.Error(), "400") || !strings.Contains(err.Error(), "enabled_schedulers") {
			return fmt.Errorf("an unknown scheduler: got %w", errors.Join(err))
		}
		more := sdk.SchedulerWorkerPoolArgs{NumSchedulers: before.NumSchedulers + 1, EnabledSchedulers: before.EnabledSchedulers}
		if err := result(b.Agent().SetSchedulerWorkerConfig(more, nil))(func(s *sdk.SchedulerWorkerPoolArgs) bool {
			return s.NumSchedulers == more.NumSchedulers && slices.Equal(s.EnabledSchedulers, before.EnabledSchedulers)
		}); err != nil {
			return err
		}
		_, err = b.Agent().SetSchedulerWorkerConfig(sdk.SchedulerWorkerPoolArgs(*before), nil)
		return err
	}},
	{"Nodes.Meta.Read", func(b *bench) error {
		return result(b.Nodes().Meta().Read(b.node, nil))(func(m *sdk.NodeMetaResponse) bool {
			return m.Meta["rack"] == "r1" && m.Static["rack"] == "r1" && len(m.Dynamic) == 0
		})
	}},
	{"Nodes.Meta.Apply", func(b *bench) error {
		zone := "z1"
		return result(b.Nodes().Meta().Apply(&sdk.NodeMetaApplyRequest{NodeID: b.node, Meta: map[string]*string{"zone": &zone, "rack": nil}},
			nil))(func(m *sdk.NodeMetaResponse) bool {
			v, removed := m.Dynamic["rack"]
			return m.Meta["zone"] == "z1" && m.Meta["rack"] == "" && m.Static["rack"] == "r1" && *m.Dynamic["zone"] == "z1" && removed && v == nil
		})
	}},
	{"/ redirects to the UI", func(b *bench) error {
		client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		resp, err := client.Get(b.Address() + "/")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if at := resp.Header.Get("Location"); resp.StatusCode != http.StatusTemporaryRedirect || at != "/ui/" {
			return fmt.Errorf("%s, location %q", resp.Status, at)
		}
		return nil
	}},
}
