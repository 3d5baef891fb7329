// Package netfilter keeps the isolated allocations of a bridge apart, with nftables rules.
//
// An isolated allocation and the other allocations of the bridge cannot reach each other, neither
// directly nor through published ports of the node. Connections from outside reach only its
// published ports. The allocation can use only its own addresses. With a list of destinations, it can
// connect to these only; answers to accepted connections are always allowed.
//
//	frame of an allocation ─▶ bridge/prerouting: is the source its own?
//	        ├─▶ bridge/forward: no frames from or to an isolated port
//	        └─▶ inet/forward, inet/input: no packets back to the bridge; destinations
//
// The rules are in two tables, of the families bridge and inet, which the kernel keeps while no
// agent runs. Both are named open_nomad, with the bridge's name appended unless it is "nomad". The
// rules refer to sets, and an element's comment is the ID of its allocation. So the kernel holds all
// state, and an agent can remove the elements of an allocation that it does not have (Sweep).
//
// A Firewall is the rules of one bridge. Protect adds an allocation, and Remove removes it. Every change
// writes the rules again, in one transaction. Other programs may flush them: Missing reports rules
// that no longer exist, and Restore writes them again.
//
// The package starts no goroutine, no process, and keeps no state in memory.
package netfilter

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"

	"github.com/open-nomad/open-nomad/nomad/egress"
)

// DefaultBridge is the name of the bridge whose tables have no name appended.
const DefaultBridge = "nomad"

// tableName is the beginning of the names of the tables.
const tableName = "open_nomad"

// Allocation is an isolated allocation and its port of the bridge.
type Allocation struct {
	ID   string
	Port string // the interface on the node that is connected to the bridge
	MAC  net.HardwareAddr
	// Addresses are those of the allocation, at most one of each family.
	Addresses []netip.Addr
	// Egress lists the destinations that the allocation can connect to, if Limited is set.
	Limited bool
	Egress  []egress.Destination
}

// Firewall is the rules of one bridge. Its methods must not be called concurrently.
type Firewall struct{ bridge, table string }

// New returns the Wall of a bridge.
func New(bridge string) *Firewall {
	w := &Firewall{bridge: bridge, table: tableName}
	if bridge != DefaultBridge {
		w.table += "_" + bridge
	}
	return w
}

// Protect isolates an allocation. It replaces the allocation's earlier rules.
func (w *Firewall) Protect(a *Allocation) error {
	if len(a.Port) == 0 || len(a.Port) >= nameSize || len(a.MAC) != macSize || len(a.Addresses) == 0 {
		return fmt.Errorf("isolate allocation %s: its interface %q has no hardware address, or no address", a.ID, a.Port)
	}
	if err := w.write([]*Allocation{a}); err != nil {
		return fmt.Errorf("isolate allocation %s: %w", a.ID, err)
	}
	return nil
}

// write replaces the rules of allocations in one transaction.
func (w *Firewall) write(all []*Allocation) error {
	return w.change(func(c *nftables.Conn, l *layout) error {
		keys, ids := map[string][]nftables.SetElement{}, map[string]bool{}
		for _, a := range all {
			ids[a.ID] = true
			for set, elements := range l.keysOf(a) {
				keys[set] = append(keys[set], elements...)
			}
		}
		err := l.clear(c, func(set *nftables.Set, e nftables.SetElement) bool {
			return ids[e.Comment] || containsKey(keys[set.Name], e.Key)
		})
		if err != nil {
			return err
		}
		for _, a := range all {
			if a.Limited {
				l.addEgress(c, a)
			}
		}
		for _, set := range l.sets {
			if len(keys[set.Name]) == 0 {
				continue
			}
			if err := c.SetAddElements(set, keys[set.Name]); err != nil {
				return err
			}
		}
		return nil
	})
}

// Remove removes the rules of an allocation, if there are any.
func (w *Firewall) Remove(alloc string) error {
	return w.Sweep(func(id string) bool { return id != alloc })
}

// Sweep removes the rules of all allocations that keep does not select.
func (w *Firewall) Sweep(keep func(alloc string) bool) error {
	if found, err := w.exists(); err != nil || !found {
		return err
	}
	err := w.change(func(c *nftables.Conn, l *layout) error {
		return l.clear(c, func(_ *nftables.Set, e nftables.SetElement) bool { return !keep(e.Comment) })
	})
	if err != nil {
		return fmt.Errorf("remove rules of allocations: %w", err)
	}
	return nil
}

// exists reports whether the tables exist.
func (w *Firewall) exists() (bool, error) {
	c, err := open()
	if err != nil {
		return false, err
	}
	return hasTable(c, &nftables.Table{Name: w.table, Family: nftables.TableFamilyINet})
}

func hasTable(c *nftables.Conn, t *nftables.Table) (bool, error) {
	tables, err := c.ListTablesOfFamily(t.Family)
	if err != nil {
		return false, fmt.Errorf("list nftables tables: %w", err)
	}
	return slices.ContainsFunc(tables, func(have *nftables.Table) bool { return have.Name == t.Name }), nil
}

// buffer is the size of the buffers of a connection. The kernel acknowledges each message of a transaction, so that
// they limit its size.
const buffer = 4 << 20

func open() (*nftables.Conn, error) {
	c, err := nftables.New(nftables.WithSockOptions(func(c *netlink.Conn) error {
		return errors.Join(c.SetReadBuffer(buffer), c.SetWriteBuffer(buffer))
	}))
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	return c, nil
}

// change writes the rules and what edit adds, in one transaction.
func (w *Firewall) change(edit func(*nftables.Conn, *layout) error) error {
	c, err := open()
	if err != nil {
		return err
	}
	l, err := newLayout(c, w)
	if err != nil {
		return err
	}
	l.write(c)
	if err := edit(c, l); err != nil {
		return err
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("write the nftables tables %s: %w", w.table, err)
	}
	return nil
}

func containsKey(list []nftables.SetElement, key []byte) bool {
	for _, e := range list {
		if bytes.Equal(e.Key, key) {
			return true
		}
	}
	return false
}
