package sdk_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

var sdkClusterReads = []sdkCall{
	{"Agent.Self", func(b *bench) error {
		return result(b.Agent().Self())(func(s *sdk.AgentSelf) bool {
			return s.Config["Region"] == "global" && s.Stats["client"]["node_id"] == b.node && s.Member.Status == "alive"
		})
	}},
	{"Agent.NodeName", func(b *bench) error { return result(b.Agent().NodeName())(func(s string) bool { return s != "" }) }},
	{"Agent.Region", func(b *bench) error { return result(b.Agent().Region())(func(s string) bool { return s == "global" }) }},
	{"Agent.Datacenter", func(b *bench) error { return result(b.Agent().Datacenter())(func(s string) bool { return s == "dc1" }) }},
	{"Agent.Members", func(b *bench) error {
		return result(b.Agent().Members())(func(m *sdk.ServerMembers) bool { return len(m.Members) == 1 && m.Members[0].Status == "alive" })
	}},
	{"Agent.Servers", func(b *bench) error { return result(b.Agent().Servers())(func(s []string) bool { return len(s) == 1 }) }},
	{"Agent.Health", func(b *bench) error {
		return result(b.Agent().Health())(func(h *sdk.AgentHealthResponse) bool { return h.Client.Ok && h.Server.Ok })
	}},
	{"Operator.Metrics", func(b *bench) error {
		return result(b.Operator().Metrics(nil))(func(text []byte) bool { return harness.ContainsJSON(string(text), `"Gauges":[`) })
	}},
	{"Status.Leader", func(b *bench) error { return result(b.Status().Leader())(func(s string) bool { return s != "" }) }},
	{"Status.Peers", func(b *bench) error { return result(b.Status().Peers())(func(s []string) bool { return len(s) == 1 }) }},
	{"Regions.List", func(b *bench) error {
		return result(b.Regions().List())(func(s []string) bool { return slices.Equal(s, []string{"global"}) })
	}},
	{"Namespaces.List", func(b *bench) error {
		return one(b.Namespaces().List(nil))(func(n *sdk.Namespace) bool { return n.Name == "default" })
	}},
	{"Namespaces.PrefixList", func(b *bench) error {
		return one(b.Namespaces().PrefixList("def", nil))(func(n *sdk.Namespace) bool { return n.Name == "default" })
	}},
	{"Namespaces.Info", func(b *bench) error {
		return val(b.Namespaces().Info("default", nil))(func(n *sdk.Namespace) bool { return n.Name == "default" && n.Description != "" })
	}},
	{"NodePools.List", func(b *bench) error {
		list, _, err := b.NodePools().List(nil)
		return result(list, err)(func(l []*sdk.NodePool) bool { return len(l) == 2 && l[0].Name == "all" && l[1].Name == "default" })
	}},
	{"NodePools.PrefixList", func(b *bench) error {
		return one(b.NodePools().PrefixList("de", nil))(func(p *sdk.NodePool) bool { return p.Name == "default" })
	}},
	{"NodePools.Info", func(b *bench) error {
		return val(b.NodePools().Info("default", nil))(func(p *sdk.NodePool) bool { return p.Name == "default" })
	}},
	{"NodePools.ListJobs", func(b *bench) error {
		return one(b.NodePools().ListJobs("default", nil))(func(j *sdk.JobListStub) bool { return j.ID == "web" })
	}},
	{"NodePools.ListNodes", func(b *bench) error {
		return one(b.NodePools().ListNodes("default", nil))(func(n *sdk.NodeListStub) bool { return n.ID == b.node })
	}},
	{"Operator.SchedulerGetConfiguration", func(b *bench) error {
		return val(b.Operator().SchedulerGetConfiguration(nil))(func(c *sdk.SchedulerConfigurationResponse) bool {
			return c.SchedulerConfig.SchedulerAlgorithm == "binpack"
		})
	}},
	{"Operator.AutopilotGetConfiguration", func(b *bench) error {
		return val(b.Operator().AutopilotGetConfiguration(nil))(func(c *sdk.AutopilotConfiguration) bool {
			return c.CleanupDeadServers && c.LastContactThreshold == 200*time.Millisecond && c.ServerStabilizationTime == 10*time.Second &&
				c.ModifyIndex > 0
		})
	}},
	{"Operator.AutopilotServerHealth", func(b *bench) error {
		return b.until("the leader has looked at the servers", func() bool {
			h, _, err := b.Operator().AutopilotServerHealth(nil)
			return err == nil && h.Healthy && len(h.Voters) == 1 && h.Servers[0].Leader && h.Servers[0].SerfStatus == "alive" && h.Servers[0].Voter
		})
	}},
	{"Keyring.List", func(b *bench) error {
		return one(b.Keyring().List(nil))(func(k *sdk.RootKeyMeta) bool { return k.State == "active" })
	}},
}

var sdkNodeReads = []sdkCall{
	{"Nodes.List", func(b *bench) error {
		return one(b.Nodes().List(&sdk.QueryOptions{Params: map[string]string{"os": "true",
			"resources": "true"}}))(func(n *sdk.NodeListStub) bool {
			return n.ID == b.node && n.Status == "ready" && n.SchedulingEligibility == "eligible" && n.Drivers["raw_exec"].Healthy &&
				n.NodeResources.Memory.MemoryMB > 0 && n.Attributes["os.name"] != ""
		})
	}},
	{"Nodes.PrefixList", func(b *bench) error {
		return one(b.Nodes().PrefixList(b.node[:8]))(func(n *sdk.NodeListStub) bool { return n.ID == b.node })
	}},
	{"Nodes.Info", func(b *bench) error {
		return val(b.Nodes().Info(b.node, nil))(func(n *sdk.Node) bool {
			return n.Attributes["kernel.name"] == "linux" && n.NodePool == "default" && n.Datacenter == "dc1" &&
				n.NodeResources.Cpu.CpuShares > 0 && len(n.Events) > 0
		})
	}},
	{"Nodes.Allocations", func(b *bench) error {
		return one(b.Nodes().Allocations(b.node, nil))(func(a *sdk.Allocation) bool { return a.ID == b.alloc.ID && *a.Job.ID == "web" })
	}},
	{"Nodes.Stats", func(b *bench) error {
		return result(b.Nodes().Stats(b.node, nil))(func(s *sdk.HostStats) bool { return s.Memory.Total > 0 && len(s.CPU) > 0 && s.Uptime > 0 })
	}},
	{"NodeIdentity.Get", func(b *bench) error {
		return result(b.Nodes().Identity().Get(&sdk.NodeIdentityGetRequest{NodeID: b.node},
			nil))(func(r *sdk.NodeIdentityGetResponse) bool { return r.Claims["nomad_node_id"] == b.node })
	}},
}

// Every SDK method that changes something works.
func TestSDKWrites(t *testing.T) {
	b := newBench(t)
	callAll(t, b, sdkWrites)
}

func wrote[T any](v T, _ *sdk.WriteMeta, err error) func(ok func(T) bool) error {
	return func(ok func(T) bool) error { return result(v, err)(ok) }
}

var sdkWrites = []sdkCall{
	{"Operator.AutopilotCASConfiguration", func(b *bench) error {
		conf, _, err := b.Operator().AutopilotGetConfiguration(nil)
		if err != nil {
			return err
		}
		if _, err := b.Operator().AutopilotSetConfiguration(conf, nil); err != nil {
			return err
		}
		return wrote(b.Operator().AutopilotCASConfiguration(conf, nil))(func(done bool) bool { return !done })
	}},
	{"Jobs.Validate", func(b *bench) error {
		return wrote(b.Jobs().Validate(b.job,
			nil))(func(r *sdk.JobValidateResponse) bool { return r.DriverConfigValidated && len(r.ValidationErrors) == 0 })
	}},
	{"Jobs.Plan", func(b *bench) error {
		job := *b.job
		job.Priority = new(int)
		*job.Priority = 60
		return wrote(b.Jobs().Plan(&job, true, nil))(func(r *sdk.JobPlanResponse) bool {
			return r.Diff.Type == "Edited" && r.JobModifyIndex > 0 && r.Annotations.DesiredTGUpdates["g"].InPlaceUpdate == 1
		})
	}},
	{"Jobs.EnforceRegister", func(b *bench) error {
		if _, _, err := b.Jobs().EnforceRegister(b.job, 1, nil); err == nil {
			return errors.New("registered in spite of another index")
		}
		now, _, err := b.Jobs().Info("web", nil)
		if err != nil {
			return err
		}
		return wrote(b.Jobs().EnforceRegister(b.job, *now.JobModifyIndex, nil))(func(r *sdk.JobRegisterResponse) bool { return r.EvalID != "" })
	}},
	{"Jobs.ForceEvaluate", func(b *bench) error {
		return wrote(b.Jobs().ForceEvaluate("web", nil))(func(id string) bool { return len(id) == 36 })
	}},
	{"Jobs.EvaluateWithOpts", func(b *bench) error {
		return wrote(b.Jobs().EvaluateWithOpts("web", sdk.EvalOptions{ForceReschedule: true}, nil))(func(id string) bool { return len(id) == 36 })
	}},
	{"Allocations.Signal", func(b *bench) error { return b.Allocations().Signal(b.alloc, nil, "t", "SIGHUP") }},
	{"Allocations.Restart", func(b *bench) error { return b.Allocations().Restart(b.alloc, "t", nil) }},
	{"Allocations.RestartAllTasks", func(b *bench) error { return b.Allocations().RestartAllTasks(b.alloc, nil) }},
	{"Nodes.ToggleEligibility", func(b *bench) error {
		for _, on := range []bool{false, true} {
			if _, err := b.Nodes().ToggleEligibility(b.node, on, nil); err != nil {
				return err
			}
			if n, _, err := b.Nodes().Info(b.node, nil); err != nil || (n.SchedulingEligibility == "eligible") != on {
				return fmt.Errorf("the node is %s after %v, %w", n.SchedulingEligibility, on, err)
			}
		}
		return nil
	}},
	{"Nodes.ForceEvaluate", func(b *bench) error {
		// Servers return the IDs under another name than the SDK reads.
		return wrote(b.Nodes().ForceEvaluate(b.node, nil))(func(string) bool { return true })
	}},
	{"NodeIdentity.Renew", func(b *bench) error {
		_, err := b.Nodes().Identity().Renew(&sdk.NodeIdentityRenewRequest{NodeID: b.node}, nil)
		return err
	}},
	{"Operator.SchedulerSetConfiguration", func(b *bench) error {
		return wrote(b.Operator().SchedulerSetConfiguration(&sdk.SchedulerConfiguration{SchedulerAlgorithm: "spread"},
			nil))(func(r *sdk.SchedulerSetConfigurationResponse) bool { return r.Updated })
	}},
	{"Operator.SchedulerCASConfiguration", func(b *bench) error {
		return wrote(b.Operator().SchedulerCASConfiguration(&sdk.SchedulerConfiguration{SchedulerAlgorithm: "binpack", ModifyIndex: 1},
			nil))(func(r *sdk.SchedulerSetConfigurationResponse) bool { return !r.Updated })
	}},
	{"Allocations.Stop", func(b *bench) error {
		if err := result(b.Allocations().Stop(b.alloc, nil))(func(r *sdk.AllocStopResponse) bool { return r.EvalID != "" }); err != nil {
			return err
		}
		return b.until("the stopped allocation is complete and replaced", func() bool {
			old, _, err := b.Allocations().Info(b.alloc.ID, nil)
			if err != nil {
				return false
			}
			list, _, err := b.Jobs().Allocations("web", false, nil)
			return err == nil && len(list) == 2 && old.ClientStatus == "complete"
		})
	}},
	{"Allocations.GC", func(b *bench) error {
		if err := b.Allocations().GC(b.alloc, nil); err != nil {
			return err
		}
		return b.until("the allocation's files are gone", func() bool {
			_, _, err := b.AllocFS().List(b.alloc, "/", nil)
			return err != nil
		})
	}},
	{"Nodes.GC", func(b *bench) error { return b.Nodes().GC(b.node, nil) }},
	{"Jobs.Deregister", func(b *bench) error {
		return wrote(b.Jobs().Deregister("web", false, nil))(func(id string) bool { return id != "" })
	}},
	{"Jobs.DeregisterOpts", func(b *bench) error {
		if err := wrote(b.Jobs().DeregisterOpts("web", &sdk.DeregisterOptions{Purge: true},
			nil))(func(id string) bool { return id != "" }); err != nil {
			return err
		}
		if _, _, err := b.Jobs().Info("web", nil); err == nil {
			return errors.New("the purged job is there")
		}
		return nil
	}},
	{"System.GarbageCollect", func(b *bench) error { return b.System().GarbageCollect() }},
	{"System.ReconcileSummaries", func(b *bench) error { return b.System().ReconcileSummaries() }},
}

// until retries until ok returns true.
func (b *bench) until(what string, ok func() bool) error {
	over := time.After(harness.Patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-over:
			return fmt.Errorf("not within %s: %s", harness.Patience, what)
		case <-tick.C:
		}
	}
	return nil
}
