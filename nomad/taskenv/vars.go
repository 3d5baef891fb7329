package taskenv

import (
	"cmp"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// parentCgroup is the variable with the control group of all tasks of the node.
const parentCgroup = "NOMAD_PARENT_CGROUP"

// builtIns adds the built-in variables.
func (b *Builder) builtIns(vars map[string]string) {
	s := b.subject
	set := func(name, value string) {
		if value != "" {
			vars[name] = value
		}
	}
	set("NOMAD_ALLOC_DIR", b.paths.Alloc)
	set("NOMAD_TASK_DIR", b.paths.Task)
	set("NOMAD_SECRETS_DIR", b.paths.Secrets)
	set("NOMAD_ALLOC_ID", s.Alloc.ID)
	set("NOMAD_SHORT_ALLOC_ID", short(s.Alloc.ID))
	set("NOMAD_ALLOC_NAME", s.Alloc.Name)
	if index := s.Alloc.Index(); index >= 0 {
		vars["NOMAD_ALLOC_INDEX"] = strconv.Itoa(index)
	}
	set("NOMAD_TASK_NAME", s.Task.Name)
	set("NOMAD_GROUP_NAME", s.Alloc.TaskGroup)
	set("NOMAD_JOB_ID", s.Alloc.JobID)
	set("NOMAD_NAMESPACE", s.Alloc.Namespace)
	set("NOMAD_REGION", s.Region)
	if s.Alloc.Job != nil {
		set("NOMAD_JOB_NAME", s.Alloc.Job.Name)
		set("NOMAD_JOB_PARENT_ID", s.Alloc.Job.ParentID)
	}
	if s.Node != nil {
		set("NOMAD_DC", s.Node.Datacenter)
		set(parentCgroup, cmp.Or(s.Node.CgroupParent, "nomad.slice"))
	}
	b.resources(vars)
	b.mesh(vars)
}

// resources adds the limits and ports.
func (b *Builder) resources(vars map[string]string) {
	all := b.subject.Alloc.AllocatedResources
	if all == nil {
		return
	}
	for name, other := range all.Tasks {
		if name == b.subject.Task.Name {
			limits(vars, other)
			ownNetworks(vars, other.Networks)
		} else {
			otherNetworks(vars, name, other.Networks)
		}
	}
	if len(all.Shared.Ports) == 0 {
		ownNetworks(vars, all.Shared.Networks)
	}
	for _, port := range all.Shared.Ports {
		groupPort(vars, port)
		allocPort(vars, port, b.subject.Network)
	}
}

func limits(vars map[string]string, r *nomad.AllocatedTaskResources) {
	vars["NOMAD_MEMORY_LIMIT"] = strconv.FormatInt(r.Memory.MemoryMB, 10)
	if r.Memory.MemoryMaxMB > 0 {
		vars["NOMAD_MEMORY_MAX_LIMIT"] = strconv.FormatInt(r.Memory.MemoryMaxMB, 10)
	}
	vars["NOMAD_CPU_LIMIT"] = strconv.FormatInt(r.Cpu.CpuShares, 10)
	cores := make([]string, 0, len(r.Cpu.ReservedCores))
	for _, core := range r.Cpu.ReservedCores {
		cores = append(cores, strconv.Itoa(int(core)))
	}
	vars["NOMAD_CPU_CORES"] = " " // a single space means that none are reserved
	if len(cores) > 0 {
		vars["NOMAD_CPU_CORES"] = strings.Join(cores, ",")
	}
}

// groupPort adds a port of the group's network.
func groupPort(vars map[string]string, p nomad.AllocatedPortMapping) {
	inside := insidePort(p)
	hostPort := strconv.Itoa(p.Value)
	addr := net.JoinHostPort(p.HostIP, hostPort)
	label := clean(p.Label)
	vars["NOMAD_PORT_"+label] = strconv.Itoa(inside)
	vars["NOMAD_IP_"+label] = p.HostIP
	vars["NOMAD_ADDR_"+label] = addr
	vars["NOMAD_HOST_PORT_"+label] = hostPort
	vars["NOMAD_HOST_IP_"+p.Label] = p.HostIP
	vars["NOMAD_HOST_ADDR_"+p.Label] = addr
	vars["NOMAD_ALLOC_PORT_"+p.Label] = strconv.Itoa(inside)
}

// insidePort returns the port in the network namespace.
func insidePort(p nomad.AllocatedPortMapping) int {
	if p.To > 0 {
		return p.To
	}
	return p.Value
}

// allocPort adds the address of a port in the allocation's network namespace.
func allocPort(vars map[string]string, p nomad.AllocatedPortMapping, n *nomad.AllocNetworkStatus) {
	if n == nil || n.Address == "" {
		return
	}
	vars["NOMAD_ALLOC_INTERFACE_"+p.Label] = n.InterfaceName
	vars["NOMAD_ALLOC_IP_"+p.Label] = n.Address
	vars["NOMAD_ALLOC_ADDR_"+p.Label] = net.JoinHostPort(n.Address, strconv.Itoa(insidePort(p)))
}

// ownNetworks adds the ports of the task's networks.
func ownNetworks(vars map[string]string, networks nomad.Networks) {
	eachPort(networks, func(ip string, p nomad.Port) {
		label, value := clean(p.Label), strconv.Itoa(p.Value)
		inside := value
		if p.To > 0 {
			inside = strconv.Itoa(p.To)
		}
		vars["NOMAD_PORT_"+label] = inside
		vars["NOMAD_IP_"+label] = ip
		vars["NOMAD_ADDR_"+label] = net.JoinHostPort(ip, value)
		vars["NOMAD_HOST_PORT_"+label] = value
		if addr, err := netip.ParseAddr(ip); err == nil && addr.Is4() {
			vars["NOMAD_IPv4_"+p.Label] = ip
		} else if err == nil {
			vars["NOMAD_IPv6_"+p.Label] = ip
		}
	})
}

// otherNetworks adds the addresses of the other tasks of the allocation.
func otherNetworks(vars map[string]string, task string, networks nomad.Networks) {
	eachPort(networks, func(ip string, p nomad.Port) {
		suffix, value := clean(task)+"_"+clean(p.Label), strconv.Itoa(p.Value)
		vars["NOMAD_ADDR_"+suffix] = net.JoinHostPort(ip, value)
		vars["NOMAD_IP_"+suffix] = ip
		vars["NOMAD_PORT_"+suffix] = value
	})
}

func eachPort(networks nomad.Networks, do func(ip string, p nomad.Port)) {
	for _, n := range networks {
		for _, p := range n.ReservedPorts {
			do(n.IP, p)
		}
		for _, p := range n.DynamicPorts {
			do(n.IP, p)
		}
	}
}

// nodeRefs are the references to the node. They are looked up in the node itself, which all tasks share.
type nodeRefs struct {
	node   *nomad.Node
	region string
}

func (r nodeRefs) lookup(name string) (value string, known bool) {
	switch {
	case name == "node.region":
		return r.region, true
	case r.node == nil:
		return "", false
	}
	if key, ok := strings.CutPrefix(name, "attr."); ok {
		value, known = r.node.Attributes[key]
		return value, known
	}
	if key, ok := strings.CutPrefix(name, "meta."); ok {
		value, known = r.node.Meta[key]
		return value, known
	}
	switch name {
	case "node.unique.id":
		return r.node.ID, true
	case "node.unique.name":
		return r.node.Name, true
	case "node.datacenter":
		return r.node.Datacenter, true
	case "node.class":
		return r.node.NodeClass, true
	case "node.pool":
		return r.node.NodePool, true
	}
	return "", false
}

// short returns the first eight characters of an ID.
func short(id string) string {
	if len(id) > 8 {
		return id[:8]
	}
	return id
}
