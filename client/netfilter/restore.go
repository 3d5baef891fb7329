package netfilter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// atOnce is the number of allocations that Restore writes in one transaction. All elements of a set are in one message
// of at most 64 KiB.
const atOnce = 64

// Generation returns the number of the node's nftables rules. Every change of them gets a new number.
func Generation() (uint32, error) {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return 0, fmt.Errorf("open nftables: %w", err)
	}
	defer c.Close()
	answers, err := c.Execute(netlink.Message{Data: make([]byte, 4), // the header of netfilter: no family, version 0
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN, Flags: netlink.Request}})
	if err == nil && (len(answers) != 1 || len(answers[0].Data) < 4) {
		err = fmt.Errorf("%d answers", len(answers))
	}
	if err != nil {
		return 0, fmt.Errorf("read the generation of nftables: %w", err)
	}
	attributes, err := netlink.UnmarshalAttributes(answers[0].Data[4:])
	if err != nil {
		return 0, fmt.Errorf("read the generation of nftables: %w", err)
	}
	for _, a := range attributes {
		if a.Type == unix.NFTA_GEN_ID && len(a.Data) == 4 {
			return binary.BigEndian.Uint32(a.Data), nil
		}
	}
	return 0, errors.New("read the generation of nftables: it has no number")
}

// Missing returns a text about the first part of the rules that does not exist, "" if all of them exist. It finds what
// a flush or a deletion of tables, chains, sets, rules or elements by others has removed. A rule that others replaced is
// not found.
func (w *Firewall) Missing(all []*Allocation) (string, error) {
	c, err := open()
	if err != nil {
		return "", err
	}
	l, err := newLayout(c, w)
	if err != nil {
		return "", err
	}
	for _, t := range []*nftables.Table{l.bridge, l.inet} {
		if found, err := hasTable(c, t); err != nil {
			return "", err
		} else if !found {
			return fmt.Sprintf("table %s of family %s", t.Name, familyName(t)), nil
		}
	}
	if name, err := l.missingRules(c); name != "" || err != nil {
		return name, err
	}
	return l.missingElements(all), nil
}

// missingRules compares the number of rules of each chain.
func (l *layout) missingRules(c *nftables.Conn) (string, error) {
	for _, ch := range l.chains {
		want := 0
		for _, r := range l.rules {
			if r.Chain == ch {
				want++
			}
		}
		// A chain that does not exist has no rules.
		if have, err := c.GetRules(ch.Table, ch); err != nil {
			return "", fmt.Errorf("list the rules of the nftables chain %s: %w", ch.Name, err)
		} else if len(have) < want {
			return fmt.Sprintf("rules of chain %s of family %s", ch.Name, familyName(ch.Table)), nil
		}
	}
	return "", nil
}

// missingElements compares the elements and the chain of destinations of each allocation.
func (l *layout) missingElements(all []*Allocation) string {
	found := map[string]bool{}
	for set, elements := range l.found {
		for _, e := range elements {
			found[set+string(e.Key)] = true
		}
	}
	for _, a := range all {
		keys := l.keysOf(a)
		for _, s := range l.sets {
			for _, e := range keys[s.Name] {
				if !found[setKey(s)+string(e.Key)] {
					return fmt.Sprintf("elements of set %s of family %s", s.Name, familyName(s.Table))
				}
			}
		}
		if a.Limited && !slices.Contains(l.egress, chainEgress+a.ID) {
			return "chain " + chainEgress + a.ID
		}
	}
	return ""
}

// Restore writes the rules of all allocations again.
func (w *Firewall) Restore(all []*Allocation) error {
	for some := range slices.Chunk(all, atOnce) {
		if err := w.write(some); err != nil {
			return fmt.Errorf("restore the isolation of allocations: %w", err)
		}
	}
	return nil
}

// probeTable is the name of the tables of Probe, which never exist after a transaction.
const probeTable = tableName + "_probe"

// Probe returns an error unless the kernel accepts the rules of this package, such as one without nftables. It adds and
// removes them in one transaction, and so changes nothing.
func Probe() error {
	w := &Firewall{bridge: DefaultBridge, table: probeTable}
	err := w.change(func(c *nftables.Conn, l *layout) error {
		c.DelTable(l.bridge)
		c.DelTable(l.inet)
		return nil
	})
	if err != nil {
		return fmt.Errorf("test nftables: %w", err)
	}
	return nil
}

func familyName(t *nftables.Table) string {
	if t.Family == nftables.TableFamilyBridge {
		return "bridge"
	}
	return "inet"
}
