// Package telemetry sets the gauges of a node: its allocations and tasks, the resources that they
// were given, and where they are wanted the use of the machine.
//
// It reads what the client knows and never asks a server. Run is its only goroutine.
package telemetry

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// defaultEvery is the interval of a Config that has none.
const defaultEvery = time.Second

// Alloc is an allocation of the node as the client knows it.
type Alloc struct {
	Resources *nomad.AllocatedResources
	Status    string // its client status
	Tasks     map[string]*nomad.TaskState
}

// Config of a Collector.
type Config struct {
	// Every is how often gauges are set; 0 is 1 s.
	Every time.Duration
	// Node returns the node, with the status and the eligibility that it has now.
	Node   func() *nomad.Node
	Allocs func() []Alloc
	// Host measures the machine; nil sets no gauges of it.
	Host func() (*nomad.HostStats, error)
	Log  *slog.Logger
}

// Collector sets the gauges of a node.
type Collector struct {
	cfg  Config
	last time.Time // when the machine was measured; owned by Run
}

// New returns a Collector.
func New(cfg Config) *Collector {
	cfg.Every = cmp.Or(cfg.Every, defaultEvery)
	return &Collector{cfg: cfg}
}

// Run sets the gauges in each interval until ctx ends.
func (c *Collector) Run(ctx context.Context) error {
	tick := time.NewTicker(c.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			c.collect()
		}
	}
}

func (c *Collector) collect() {
	node := c.cfg.Node()
	labels := Labels(node)
	allocs := c.cfg.Allocs()
	statuses(labels, allocs)
	resources(labels, node, allocs)
	if c.cfg.Host == nil {
		return
	}
	host, err := c.cfg.Host()
	if err != nil {
		c.cfg.Log.Warn("measure the machine", "err", err)
		return
	}
	c.machine(labels, host)
}

// Labels returns the labels of every metric of a node. Their slice has no room: it is shared.
func Labels(n *nomad.Node) []metrics.Label {
	labels := []metrics.Label{
		{Name: "node_id", Value: n.ID}, {Name: "datacenter", Value: n.Datacenter},
		{Name: "node_class", Value: cmp.Or(n.NodeClass, "none")}, {Name: "node_pool", Value: n.NodePool},
		{Name: "node_status", Value: n.Status}, {Name: "node_scheduling_eligibility", Value: n.SchedulingEligibility},
	}
	return labels[:len(labels):len(labels)]
}

// statuses sets how many allocations and tasks are in which state. None is blocked or migrating:
// no allocation here waits for the data of another one.
func statuses(labels []metrics.Label, allocs []Alloc) {
	ofAllocs := map[string]int{"pending": 0, "running": 0, "terminal": 0, "blocked": 0, "migrating": 0}
	ofTasks := map[string]int{nomad.TaskStatePending: 0, nomad.TaskStateRunning: 0, nomad.TaskStateDead: 0}
	for _, a := range allocs {
		switch a.Status {
		case nomad.AllocClientStatusPending:
			ofAllocs["pending"]++
		case nomad.AllocClientStatusRunning:
			ofAllocs["running"]++
		default:
			ofAllocs["terminal"]++
		}
		for _, t := range a.Tasks {
			ofTasks[t.State]++
		}
	}
	for name, n := range ofAllocs {
		gauge(labels, float64(n), "allocations", name)
	}
	for name, n := range ofTasks {
		gauge(labels, float64(n), "tasks", name)
	}
}

// resources sets what the allocations that are not over were given, and what is left: CPU in
// MHz, memory and disk in MiB.
func resources(labels []metrics.Label, node *nomad.Node, allocs []Alloc) {
	var used nomad.Used
	mbits := map[string]int{}
	for _, a := range allocs {
		if a.Resources == nil || a.Status != nomad.AllocClientStatusPending && a.Status != nomad.AllocClientStatusRunning {
			continue
		}
		used.Add(a.Resources.Flatten(), 1)
		for _, n := range a.Resources.Shared.Networks {
			mbits[n.Device] += n.MBits
		}
	}
	all := feasible.Capacity(node)
	gauge(labels, float64(used.CPU), "allocated", "cpu")
	gauge(labels, float64(used.MemoryMB), "allocated", "memory")
	gauge(labels, float64(used.MemoryMaxMB), "allocated", "max_memory")
	gauge(labels, float64(used.DiskMB), "allocated", "disk")
	gauge(labels, float64(all.CPU-used.CPU), "unallocated", "cpu")
	gauge(labels, float64(all.MemoryMB-used.MemoryMB), "unallocated", "memory")
	gauge(labels, float64(all.DiskMB-used.DiskMB), "unallocated", "disk")
	if node.NodeResources == nil {
		return
	}
	for _, n := range node.NodeResources.Networks {
		of := append(labels, metrics.Label{Name: "device", Value: n.Device})
		gauge(of, float64(mbits[n.Device]), "allocated", "network")
		gauge(of, float64(n.MBits-mbits[n.Device]), "unallocated", "network")
	}
}

// machine sets what the machine uses.
func (c *Collector) machine(labels []metrics.Label, h *nomad.HostStats) {
	gauge(labels, float64(h.Uptime), "uptime")
	if m := h.Memory; m != nil {
		gauge(labels, float64(m.Total), "host", "memory", "total")
		gauge(labels, float64(m.Available), "host", "memory", "available")
		gauge(labels, float64(m.Used), "host", "memory", "used")
		gauge(labels, float64(m.Free), "host", "memory", "free")
	}
	between := c.since(time.Unix(0, h.Timestamp))
	for _, cpu := range h.CPU {
		of := append(labels, metrics.Label{Name: "cpu", Value: cpu.CPU})
		gauge(of, cpu.TotalPercent, "host", "cpu", "total_percent")
		gauge(of, cpu.TotalPercent, "host", "cpu", "total")
		gauge(of, cpu.User, "host", "cpu", "user")
		gauge(of, cpu.System, "host", "cpu", "system")
		gauge(of, cpu.Idle, "host", "cpu", "idle")
		gauge(of, cpu.TotalTicks, "host", "cpu", "total_ticks")
		metrics.IncrCounterWithLabels([]string{"client", "host", "cpu", "total_ticks_count"}, float32(cpu.TotalTicks*between.Seconds()), of)
	}
	for _, d := range h.DiskStats {
		of := append(labels, metrics.Label{Name: "disk", Value: d.Device})
		gauge(of, float64(d.Size), "host", "disk", "size")
		gauge(of, float64(d.Used), "host", "disk", "used")
		gauge(of, float64(d.Available), "host", "disk", "available")
		gauge(of, d.UsedPercent, "host", "disk", "used_percent")
		gauge(of, d.InodesUsedPercent, "host", "disk", "inodes_percent")
	}
}

// since returns the time since the machine was last measured, zero for the first time.
func (c *Collector) since(now time.Time) time.Duration {
	before := c.last
	c.last = now
	if before.IsZero() || now.Before(before) {
		return 0
	}
	return now.Sub(before)
}

// gauge sets a gauge of the client.
func gauge(labels []metrics.Label, value float64, name ...string) {
	metrics.SetGaugeWithLabels(append([]string{"client"}, name...), float32(value), labels)
}
