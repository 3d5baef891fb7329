package alloc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// mib is one mebibyte in bytes.
const mib = 1 << 20

// resources prints the reserved and used resources of a task, and its addresses.
func (o *statusOptions) resources(e *term.Env, a *api.Allocation, name string, usage *api.AllocResourceUsage) {
	if a.AllocatedResources == nil || a.AllocatedResources.Tasks[name] == nil {
		return
	}
	r := a.AllocatedResources.Tasks[name]
	cpu := fmt.Sprintf("%d MHz", r.Cpu.CpuShares)
	memory := term.Bytes(uint64(r.Memory.MemoryMB) * mib)
	limit := ""
	if m := r.Memory.MemoryMaxMB; m > 0 && m != r.Memory.MemoryMB {
		limit = "Max: " + term.Bytes(uint64(m)*mib)
	}
	used := usageOf(usage, name)
	if used != nil && used.CpuStats != nil {
		cpu = fmt.Sprintf("%.0f/%s", used.CpuStats.TotalTicks, cpu)
	}
	if used != nil && used.MemoryStats != nil {
		memory = term.Bytes(resident(used.MemoryStats)) + "/" + memory
	}
	addresses := append(taskAddresses(r.Networks), "", "")
	head := "CPU"
	if t := taskOf(a, name); t != nil && t.Resources != nil && t.Resources.Cores != nil && *t.Resources.Cores > 0 {
		head = fmt.Sprintf("CPU (%d cores)", *t.Resources.Cores)
	}
	rows := []string{head + "|Memory|Disk|Addresses",
		term.Row(cpu, memory, term.Bytes(uint64(a.AllocatedResources.Shared.DiskMB)*mib), addresses[0])}
	if limit != "" || addresses[1] != "" {
		rows = append(rows, term.Row("", limit, "", addresses[1]))
	}
	for _, address := range addresses[2:] {
		if address != "" {
			rows = append(rows, term.Row("", "", "", address))
		}
	}
	e.Println("Task Resources:\n" + term.BlankTable(rows))
	o.devices(e, r.Devices, used)
	if o.stats && used != nil {
		measured(e, used)
	}
}

// devices prints the devices of a task with their statistics.
func (o *statusOptions) devices(e *term.Env, assigned []*api.AllocatedDeviceResource, used *api.ResourceUsage) {
	if len(assigned) == 0 {
		return
	}
	summaries := map[string]*api.DeviceStats{}
	if used != nil {
		term.EachDevice(used.DeviceStats, func(name string, s *api.DeviceStats) { summaries[name] = s })
	}
	rows := []string{}
	for _, d := range assigned {
		for _, id := range d.DeviceIDs {
			name := term.DeviceName(&api.DeviceGroupStats{Vendor: d.Vendor, Type: d.Type, Name: d.Name}, id)
			s := summaries[name]
			if s == nil {
				rows = append(rows, term.Row(name, ""))
				continue
			}
			rows = append(rows, term.Row(name, s.Summary))
			if o.stats {
				rows = append(rows, term.DeviceDetails(s)...)
			}
		}
	}
	e.Printf("\nDevice Stats:\n%s\n", term.Pairs(rows))
}

func usageOf(usage *api.AllocResourceUsage, task string) *api.ResourceUsage {
	if usage == nil || usage.Tasks[task] == nil {
		return nil
	}
	return usage.Tasks[task].ResourceUsage
}

// resident returns RSS if the driver measures it, else the usage.
func resident(m *api.MemoryStats) uint64 {
	if m.RSS == 0 && !slices.Contains(m.Measured, "RSS") {
		return m.Usage
	}
	return m.RSS
}

func taskAddresses(networks []*api.NetworkResource) []string {
	var out []string
	for _, n := range networks {
		for _, p := range slices.Concat(n.DynamicPorts, n.ReservedPorts) {
			out = append(out, fmt.Sprintf("%s: %s:%d", p.Label, n.IP, p.Value))
		}
	}
	return out
}

// measured prints the memory and CPU values that the driver measures.
func measured(e *term.Env, u *api.ResourceUsage) {
	if m := u.MemoryStats; m != nil {
		stats(e, "Memory Stats", m.Measured, map[string]string{
			"RSS": term.Bytes(m.RSS), "Cache": term.Bytes(m.Cache), "Swap": term.Bytes(m.Swap), "Usage": term.Bytes(m.Usage),
			"Max Usage": term.Bytes(m.MaxUsage), "Kernel Usage": term.Bytes(m.KernelUsage),
			"Kernel Max Usage": term.Bytes(m.KernelMaxUsage),
		})
	}
	if c := u.CpuStats; c != nil {
		percent := func(v float64) string { return fmt.Sprintf("%.2f%%", v) }
		stats(e, "CPU Stats", c.Measured, map[string]string{
			"Percent": percent(c.Percent), "User Mode": percent(c.UserMode), "System Mode": percent(c.SystemMode),
			"Throttled Periods": fmt.Sprint(c.ThrottledPeriods), "Throttled Time": fmt.Sprint(c.ThrottledTime),
		})
	}
}

// stats prints the values whose name is in measured, sorted by name.
func stats(e *term.Env, title string, measured []string, values map[string]string) {
	var names, cells []string
	for _, name := range slices.Sorted(slices.Values(measured)) {
		if v, ok := values[name]; ok {
			names, cells = append(names, name), append(cells, v)
		}
	}
	if len(names) > 0 {
		e.Printf("\n%s\n%s\n", title, term.Table([]string{strings.Join(names, "|"), strings.Join(cells, "|")}))
	}
}

// hostVolumes prints the host volumes that a task mounts.
func hostVolumes(e *term.Env, a *api.Allocation, name string) {
	t, group := taskOf(a, name), groupOf(a)
	if t == nil || group == nil {
		return
	}
	rows := []string{"ID|Read Only"}
	for _, m := range t.VolumeMounts {
		if m.Volume == nil || group.Volumes[*m.Volume] == nil || group.Volumes[*m.Volume].Type != "host" {
			continue
		}
		v := group.Volumes[*m.Volume]
		rows = append(rows, term.Row(*m.Volume, v.ReadOnly || m.ReadOnly != nil && *m.ReadOnly))
	}
	if len(rows) > 1 {
		e.Printf("\nHost Volumes:\n%s\n", term.Table(rows))
	}
}
