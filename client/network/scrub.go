package network

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"

	"github.com/open-nomad/open-nomad/client/netns"
	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/internal/safefs"
)

// disconnect removes the network of a record, and then the record.
func (o *operation) disconnect(ctx context.Context, r *record) error {
	if err := o.delete(ctx, r); err != nil {
		return fmt.Errorf("remove the network of allocation %s: %w", r.Alloc, err)
	}
	if r.Isolated {
		if err := o.guard.remove(r.Bridge, r.Alloc); err != nil {
			return err
		}
	}
	if err := uncache(o.dir, r); err != nil {
		return err
	}
	if err := r.remove(o.dir); err != nil {
		return err
	}
	o.release(r.Alloc)
	return nil
}

// cacheName is the directory of the CNI library below that of the Set.
const cacheName = "results"

// uncache removes what the CNI library has stored, if the plugins could not remove the network.
func uncache(d *safefs.Dir, r *record) error {
	list, err := libcni.NetworkConfFromBytes(r.Config)
	if err != nil {
		return err
	}
	cache, err := d.Sub(cacheName)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer cache.Close()
	return cache.Remove(list.Name + "-" + r.Alloc + "-" + interfaceName)
}

// delete runs the plugins to remove the network. What they do not remove, it removes itself.
func (o *operation) delete(ctx context.Context, r *record) error {
	list, err := libcni.NetworkConfFromBytes(r.Config)
	if err != nil {
		return err
	}
	addrs, err := o.leased(r)
	if err != nil {
		return err
	}
	_, gone := netns.Addresses(r.Path, interfaceName)
	err = o.plugins(ctx, list.Name, o.cfg.Limits.Delete, func(ctx context.Context) error {
		return o.library().DelNetworkList(ctx, list, r.runtime())
	})
	if err == nil && gone == nil && r.Status != nil {
		return nil
	}
	if err != nil {
		o.cfg.Log.Warn("remove a network by its plugins", "alloc", r.Alloc, "err", err)
	}
	if r.Bridge == "" {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), scrubTimeout) // the plugins may have used the time
	defer cancel()
	return o.scrub(ctx, r, addrs)
}

// leased returns the addresses of the allocation: of its status, and of the files of the plugin
// host-local.
func (s *Set) leased(r *record) ([]netip.Addr, error) {
	var out []netip.Addr
	add := func(text string) {
		if ip, err := netip.ParseAddr(text); err == nil && !slices.Contains(out, ip) {
			out = append(out, ip)
		}
	}
	if r.Status != nil {
		add(r.Status.Address)
		add(r.Status.AddressIPv6)
	}
	if r.Bridge == "" || r.Status != nil {
		return out, nil
	}
	names, err := leases(r.Alloc)
	for _, name := range names {
		add(name)
	}
	return out, err
}

// maxLease is the size limit of a file with the owner of an address.
const maxLease = 4 << 10

// leases returns the names of the files with the allocation's addresses.
func leases(alloc string) ([]string, error) {
	d, err := safefs.Open(filepath.Join(ipamDir, networkName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Names()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(names, func(name string) bool {
		if _, err := netip.ParseAddr(name); err != nil {
			return true
		}
		raw, err := d.ReadFile(name, maxLease)
		owner, _, _ := strings.Cut(strings.TrimSpace(string(raw)), "\n")
		return err != nil || strings.TrimSpace(owner) != alloc
	}), nil
}

// scrub removes the rules and addresses of an allocation without the plugins. IPv6 is first.
func (s *Set) scrub(ctx context.Context, r *record, addrs []netip.Addr) error {
	var errs []error
	names, err := leases(r.Alloc)
	errs = append(errs, err)
	for _, name := range names {
		errs = append(errs, release(name))
	}
	families := []string{"iptables"}
	if slices.ContainsFunc(addrs, netip.Addr.Is6) || s.cfg.Bridge.Subnet6.IsValid() {
		families = []string{"ip6tables", "iptables"}
	}
	for _, family := range families {
		saved, err := program(ctx, family+"-save", nil)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		edit := removal(string(saved), r.Alloc, addrs)
		if edit == "" {
			continue
		}
		if _, err := program(ctx, family+"-restore", []byte(edit), "-w", "--noflush"); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// release removes the file of an address.
func release(name string) error {
	d, err := safefs.Open(filepath.Join(ipamDir, networkName))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Remove(name)
}

// target finds the chain to which a rule jumps. Those of one allocation are named by a hash.
var target = pattern.Lazy(` -j (CNI-(?:DN-|SN-)?[0-9a-f]{20,24})$`)

// removal returns the input of iptables-restore that removes the rules of the allocation. It takes
// them from the output of iptables-save: those whose comment has the ID, the chains that belong to
// it, and the rules of the firewall for its addresses.
func removal(saved, alloc string, addrs []netip.Addr) string {
	id := fmt.Sprintf(`id: \"%s\"`, alloc)
	owned := func(rule string) bool {
		if strings.Contains(rule, id) {
			return true
		}
		return slices.ContainsFunc(addrs, func(a netip.Addr) bool {
			p := netip.PrefixFrom(a, a.BitLen()).String()
			return strings.HasPrefix(rule, "-A CNI-FORWARD -d "+p+" ") || strings.HasPrefix(rule, "-A CNI-FORWARD -s "+p+" ")
		})
	}
	var out strings.Builder
	var rules, chains []string
	for line := range strings.Lines(saved) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "*"):
			rules, chains = []string{line}, nil
		case line == "COMMIT":
			if len(rules) == 1 {
				continue
			}
			for _, c := range chains {
				rules = append(rules, "-F "+c)
			}
			for _, c := range chains {
				rules = append(rules, "-X "+c)
			}
			out.WriteString(strings.Join(append(rules, "COMMIT"), "\n") + "\n")
		case strings.HasPrefix(line, "-A ") && owned(line):
			rules = append(rules, "-D "+strings.TrimPrefix(line, "-A "))
			if m := target().FindStringSubmatch(line); m != nil && !slices.Contains(chains, m[1]) {
				chains = append(chains, m[1])
			}
		}
	}
	return out.String()
}

// output runs a program and returns what it prints.
func output(cmd *exec.Cmd, input []byte) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.Bytes(), nil
}
