package rules

import (
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// MaxDescription is the maximum length of the descriptions of namespaces, node pools and quotas.
const MaxDescription = 256

// Namespace checks the namespace without reference to other objects.
func Namespace(n *nomad.Namespace) error {
	switch {
	case n == nil:
		return apierror.Errorf(400, "missing namespace")
	case !objectName().MatchString(n.Name): // tools match the text up to the period
		return apierror.Errorf(400, "invalid name %q. Must match regex %s", n.Name, objectName())
	case len(n.Description) > MaxDescription:
		return apierror.Errorf(400, "description of namespace %q is longer than %d characters", n.Name, MaxDescription)
	}
	if err := namespacePools(n); err != nil {
		return err
	}
	return namespaceClaims(n)
}

// namespacePools rejects a configuration with both allowed and denied pools.
func namespacePools(n *nomad.Namespace) error {
	c := n.NodePoolConfiguration
	switch {
	case c == nil:
		return nil
	case c.Allowed != nil && c.Denied != nil:
		return apierror.Errorf(400, "node pool configuration of namespace %q has allowed and denied pools: use one of them", n.Name)
	case slices.Contains(c.Allowed, "") || slices.Contains(c.Denied, ""):
		return apierror.Errorf(400, "node pool configuration of namespace %q contains an empty pool name", n.Name)
	}
	pool := n.DefaultPool()
	if denied(c, pool) != "" {
		return apierror.Errorf(400, "node pool configuration of namespace %q denies its default pool %q: set another default", n.Name, pool)
	}
	return nil
}

func namespaceClaims(n *nomad.Namespace) error {
	for name := range n.RequiredExtraClaims {
		if _, twice := n.OptionalExtraClaims[name]; twice {
			return apierror.Errorf(400, "the extra claim %q of namespace %q is both required and optional: keep one", name, n.Name)
		}
	}
	for name := range n.Claims() {
		if name == "" || strings.TrimSpace(name) != name {
			return apierror.Errorf(400, "an extra claim of namespace %q has the invalid name %q", n.Name, name)
		}
	}
	return nil
}

// denied returns the reason why the denied pools forbid a pool, or "" if they do not. If any pool is denied, the
// pool "all" is denied too, because it contains the nodes of the denied pools.
func denied(c *nomad.NamespaceNodePoolConfiguration, pool string) string {
	for _, pattern := range c.Denied {
		if untrusted.GlobMatch(pattern, pool) {
			return "it denies " + pattern
		}
	}
	if pool == nomad.NodePoolAll && len(c.Denied) > 0 {
		return "it denies " + strings.Join(c.Denied, ", ") + ", whose nodes it contains"
	}
	return ""
}

// JobInNamespace rejects a job whose node pool, task drivers or network modes the namespace does not allow. The default
// pool of the namespace is always allowed.
func JobInNamespace(n *nomad.Namespace, job *nomad.Job) error {
	if err := jobPool(n, job); err != nil {
		return err
	}
	if n.Capabilities == nil {
		return nil
	}
	for _, tg := range job.TaskGroups {
		if err := jobGroup(n, tg); err != nil {
			return err
		}
	}
	return nil
}

func jobPool(n *nomad.Namespace, job *nomad.Job) error {
	c := n.NodePoolConfiguration
	if c == nil || job.NodePool == n.DefaultPool() {
		return nil
	}
	why := denied(c, job.NodePool)
	if c.Allowed != nil && !slices.ContainsFunc(c.Allowed, func(p string) bool { return untrusted.GlobMatch(p, job.NodePool) }) {
		why = "it allows " + strings.Join(append(slices.Clone(c.Allowed), n.DefaultPool()), ", ")
	}
	if why == "" {
		return nil
	}
	return apierror.Errorf(400, "job %q uses node pool %q, which namespace %q does not allow: %s", job.ID, job.NodePool, n.Name, why)
}

func jobGroup(n *nomad.Namespace, tg *nomad.TaskGroup) error {
	c := n.Capabilities
	for _, t := range tg.Tasks {
		if !allows(c.EnabledTaskDrivers, c.DisabledTaskDrivers, t.Driver) {
			return apierror.Errorf(400, "task %q of group %q uses the task driver %q, which is not allowed in namespace %q",
				t.Name, tg.Name, t.Driver, n.Name)
		}
	}
	for _, t := range tg.Tasks {
		mode, given := t.NetworkMode()
		if mode == "" && given && len(c.EnabledNetworkModes)+len(c.DisabledNetworkModes) > 0 {
			return apierror.Errorf(400, "task %q of group %q has a network_mode with a reference, "+
				"but namespace %q restricts the network modes: write the mode itself",
				t.Name, tg.Name, n.Name)
		}
		if given && !allows(c.EnabledNetworkModes, c.DisabledNetworkModes, mode) {
			return apierror.Errorf(400, "task %q of group %q uses the network_mode %q, which is not allowed in namespace %q",
				t.Name, tg.Name, mode, n.Name)
		}
	}
	for _, mode := range networkModes(tg) {
		if !allows(c.EnabledNetworkModes, c.DisabledNetworkModes, mode) {
			return apierror.Errorf(400, "group %q uses the network mode %q, which is not allowed in namespace %q", tg.Name, mode, n.Name)
		}
	}
	return nil
}

// allows reports whether a name is enabled and not disabled. An empty list of enabled names enables all.
func allows(enabled, disabled []string, name string) bool {
	return !slices.Contains(disabled, name) && (len(enabled) == 0 || slices.Contains(enabled, name))
}

// networkModes returns the network modes of a group. A group without a network block uses mode host.
func networkModes(tg *nomad.TaskGroup) []string {
	out := make([]string, 0, 1)
	for _, net := range tg.Networks {
		mode := nomad.NetworkModeHost
		if net.Mode != "" {
			mode = net.Mode
		}
		out = append(out, mode)
	}
	if len(out) == 0 {
		out = append(out, nomad.NetworkModeHost)
	}
	return out
}
