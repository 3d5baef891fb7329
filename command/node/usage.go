package node

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// mib is one mebibyte in bytes.
const mib = 1 << 20

// capacity is the resources of a node that allocations can use, without reserved resources.
type capacity struct{ cpu, memory, disk int64 }

func capacityOf(n *api.Node) capacity {
	var out capacity
	if r := n.NodeResources; r != nil {
		out = capacity{r.Cpu.CpuShares, r.Memory.MemoryMB, r.Disk.DiskMB}
	}
	if r := n.ReservedResources; r != nil {
		out.cpu -= int64(r.Cpu.CpuShares)
		out.memory -= int64(r.Memory.MemoryMB)
		out.disk -= int64(r.Disk.DiskMB)
	}
	return out
}

// size formats an amount in MiB.
func size(mb int64) string { return term.Bytes(uint64(max(mb, 0)) * mib) }

// allocated prints the resources that allocations have reserved.
func allocated(e *term.Env, n *api.Node, allocs []*api.Allocation) {
	var cpu, memory, limit, disk int64
	for _, a := range allocs {
		if a.ClientStatus != api.AllocClientStatusRunning && a.ClientStatus != api.AllocClientStatusPending || a.AllocatedResources == nil {
			continue
		}
		for _, t := range a.AllocatedResources.Tasks {
			cpu += t.Cpu.CpuShares
			memory += t.Memory.MemoryMB
			limit += max(t.Memory.MemoryMB, t.Memory.MemoryMaxMB)
		}
		disk += a.AllocatedResources.Shared.DiskMB
	}
	of := capacityOf(n)
	head, cells := "CPU|Memory|Disk", []any{fmt.Sprintf("%d/%d MHz", cpu, of.cpu), size(memory) + "/" + size(of.memory)}
	if limit > memory {
		head, cells = "CPU|Memory|Memory Max|Disk", append(cells, size(limit)+"/"+size(of.memory))
	}
	e.Println("\n" + e.Bold("Allocated Resources"))
	e.Println(term.Table([]string{head, term.Row(append(cells, size(disk)+"/"+size(of.disk))...)}))
}

// usage is the resource usage of allocations.
type usage struct {
	ticks  float64 // of the CPU, in MHz
	memory uint64  // in bytes
}

// usageOf returns the resource usage of the running allocations. It fails if a query for one of them
// does.
func usageOf(ctx context.Context, c *api.Client, allocs []*api.Allocation) (out usage, err error) {
	for _, a := range allocs {
		if a.ClientStatus != api.AllocClientStatusRunning {
			continue
		}
		u, err := c.Allocations().Stats(a, (&api.QueryOptions{Namespace: a.Namespace}).WithContext(ctx))
		if err != nil {
			return usage{}, err
		}
		if u.ResourceUsage == nil {
			continue
		}
		if cpu := u.ResourceUsage.CpuStats; cpu != nil {
			out.ticks += cpu.TotalTicks
		}
		if m := u.ResourceUsage.MemoryStats; m != nil {
			out.memory += max(m.RSS, m.Usage)
		}
	}
	return out, nil
}

// utilization prints the resource usage of the running allocations.
func utilization(e *term.Env, n *api.Node, u usage) {
	of := capacityOf(n)
	e.Println("\n" + e.Bold("Allocation Resource Utilization"))
	e.Println(term.Table([]string{"CPU|Memory",
		term.Row(fmt.Sprintf("%.0f/%d MHz", u.ticks, of.cpu), term.Bytes(u.memory)+"/"+size(of.memory))}))
}

// used prints the resource usage of the host. The disk is that of the allocation directory.
func used(e *term.Env, n *api.Node, s *api.HostStats) {
	disk := ""
	if d := s.AllocDirStats; d != nil {
		disk = term.Bytes(d.Used) + "/" + term.Bytes(d.Size)
	}
	memory := ""
	if s.Memory != nil {
		memory = term.Bytes(s.Memory.Used) + "/" + term.Bytes(s.Memory.Total)
	}
	e.Println("\n" + e.Bold("Host Resource Utilization"))
	e.Println(term.Table([]string{"CPU|Memory|Disk",
		term.Row(fmt.Sprintf("%.0f/%d MHz", s.CPUTicksConsumed, capacityOf(n).cpu), memory, disk)}))
}

// usedEach prints the usage of each CPU, of the memory and of each disk.
func usedEach(e *term.Env, s *api.HostStats) {
	e.Println("\n" + e.Bold("CPU Stats"))
	for _, cpu := range s.CPU {
		e.Println(term.Pairs([]string{term.Row("CPU", cpu.CPU), term.Row("User", percent(cpu.User)),
			term.Row("System", percent(cpu.System)), term.Row("Idle", percent(cpu.Idle))}) + "\n")
	}
	if m := s.Memory; m != nil {
		e.Println(e.Bold("Memory Stats"))
		e.Println(term.Pairs([]string{term.Row("Total", term.Bytes(m.Total)), term.Row("Available", term.Bytes(m.Available)),
			term.Row("Used", term.Bytes(m.Used)), term.Row("Free", term.Bytes(m.Free))}) + "\n")
	}
	e.Println(e.Bold("Disk Stats"))
	for _, d := range s.DiskStats {
		e.Println(term.Pairs([]string{term.Row("Device", d.Device), term.Row("MountPoint", d.Mountpoint),
			term.Row("Size", term.Bytes(d.Size)), term.Row("Used", term.Bytes(d.Used)), term.Row("Available", term.Bytes(d.Available)),
			term.Row("Used Percent", percent(d.UsedPercent)), term.Row("Inodes Percent", percent(d.InodesUsedPercent))}) + "\n")
	}
}

func percent(v float64) string { return fmt.Sprintf("%.2f%%", v) }
