// Package telemetry publishes the gauges of a node. These are the states of its allocations and
// tasks, their resources and, if enabled, the host's resource usage.
//
// It uses only data of the client and never calls a server. Run is its only goroutine.
package telemetry

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/internal/every"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

// defaultEvery is the default interval.
const defaultEvery = time.Second

// Alloc is the client's view of an allocation.
type Alloc struct {
	Resources *nomad.AllocatedResources
	Status    string // its client status
	Tasks     map[string]*nomad.TaskState
}

// Config configures a Collector.
type Config struct {
	// Every is the publishing interval; 0 means 1 s.
	Every time.Duration
	// Node returns the node with its current status and eligibility.
	Node   func() *nomad.Node
	Allocs func() []Alloc
	// Host measures the host; nil disables the host's gauges.
	Host func() (*message.HostStats, error)
	Log  *slog.Logger
}

// Collector publishes the gauges of a node.
type Collector struct {
	cfg  Config
	last time.Time // when the host was measured; owned by Run
}

// New returns a Collector.
func New(cfg Config) *Collector {
	cfg.Every = cmp.Or(cfg.Every, defaultEvery)
	return &Collector{cfg: cfg}
}

// Run publishes the gauges once per interval until ctx ends.
func (c *Collector) Run(ctx context.Context) error {
	return every.Tick(ctx, c.cfg.Every, c.collect)
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
		c.cfg.Log.Warn("measure the host", "err", err)
		return
	}
	c.machine(labels, host)
}

// Labels returns the labels of every metric of a node. The slice has no spare capacity, because
// it is shared.
func Labels(n *nomad.Node) []metrics.Label {
	labels := []metrics.Label{
		{Name: "node_id", Value: n.ID}, {Name: "datacenter", Value: n.Datacenter},
		{Name: "node_class", Value: cmp.Or(n.NodeClass, "none")}, {Name: "node_pool", Value: n.NodePool},
		{Name: "node_status", Value: n.Status}, {Name: "node_scheduling_eligibility", Value: n.SchedulingEligibility},
	}
	return labels[:len(labels):len(labels)]
}

// statuses publishes the numbers of allocations and tasks per state. Allocations that wait for the
// end or the data of others are pending, not blocked or migrating.
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

// resources publishes the allocated resources of pending and running allocations, and the
// unallocated ones: CPU in MHz, memory and disk in MiB.
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

// machine publishes the resource usage of the host.
func (c *Collector) machine(labels []metrics.Label, h *message.HostStats) {
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

// since returns the time since the host was last measured, zero the first time.
func (c *Collector) since(now time.Time) time.Duration {
	before := c.last
	c.last = now
	if before.IsZero() || now.Before(before) {
		return 0
	}
	return now.Sub(before)
}

// gauge publishes a gauge of the client.
func gauge(labels []metrics.Label, value float64, name ...string) {
	metrics.SetGaugeWithLabels(append([]string{"client"}, name...), float32(value), labels)
}
