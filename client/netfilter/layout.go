package netfilter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
)

// Names of the sets. Those with a 4 or 6 at the end are of that family.
const (
	setPorts  = "ports"    // the ports of isolated allocations
	setMACs   = "macs"     // their hardware addresses
	setOwnMAC = "own_macs" // port and hardware address
	setAddr   = "addr"     // their addresses
	setOwn    = "own"      // port and address
	setSelf   = "self"     // address and the same address again, for packets to itself
	setEgress = "egress"   // address and chain of destinations
)

// chainEgress begins the name of the chain of an allocation's destinations.
const chainEgress = "egress-"

// layout is the structure of the tables: chains with their rules, and sets.
type layout struct {
	bridgeName   string
	bridge, inet *nftables.Table
	sets         []*nftables.Set
	byName       map[string]*nftables.Set // by table family and name
	chains       []*nftables.Chain
	rules        []*nftables.Rule
	// found are the existing elements and the chains of destinations.
	found  map[string][]nftables.SetElement
	egress []string
}

// Priorities: bridge rules run before those of iptables, and inet rules before the node's filters.
var (
	priorityBridge = nftables.ChainPriorityRef(-200)
	priorityRaw    = nftables.ChainPriorityRaw
	priorityInet   = nftables.ChainPriorityRef(-5)
)

// newLayout returns the layout, with what exists of it.
func newLayout(c *nftables.Conn, w *Firewall) (*layout, error) {
	l := &layout{bridgeName: w.bridge, byName: map[string]*nftables.Set{}, found: map[string][]nftables.SetElement{},
		bridge: &nftables.Table{Name: w.table, Family: nftables.TableFamilyBridge},
		inet:   &nftables.Table{Name: w.table, Family: nftables.TableFamilyINet}}
	l.addSets()
	l.bridgeRules()
	l.inetRules()
	return l, l.read(c)
}

// addSets adds the sets. A concatenation begins with the name of a port, or is two addresses.
func (l *layout) addSets() {
	name, mac, v4, v6 := nftables.TypeIFName, nftables.TypeEtherAddr, nftables.TypeIPAddr, nftables.TypeIP6Addr
	for _, s := range []nftables.Set{
		{Table: l.bridge, Name: setPorts, KeyType: name, KeyByteOrder: binaryutil.NativeEndian},
		{Table: l.bridge, Name: setMACs, KeyType: mac},
		{Table: l.bridge, Name: setOwnMAC, KeyType: nftables.MustConcatSetType(name, mac)},
		{Table: l.bridge, Name: setAddr + "4", KeyType: v4},
		{Table: l.bridge, Name: setAddr + "6", KeyType: v6},
		{Table: l.bridge, Name: setOwn + "4", KeyType: nftables.MustConcatSetType(name, v4)},
		{Table: l.bridge, Name: setOwn + "6", KeyType: nftables.MustConcatSetType(name, v6)},
		{Table: l.inet, Name: setAddr + "4", KeyType: v4},
		{Table: l.inet, Name: setAddr + "6", KeyType: v6},
		{Table: l.inet, Name: setSelf + "4", KeyType: nftables.MustConcatSetType(v4, v4)},
		{Table: l.inet, Name: setSelf + "6", KeyType: nftables.MustConcatSetType(v6, v6)},
		{Table: l.inet, Name: setEgress + "4", KeyType: v4, IsMap: true, DataType: nftables.TypeVerdict},
		{Table: l.inet, Name: setEgress + "6", KeyType: v6, IsMap: true, DataType: nftables.TypeVerdict},
	} {
		s.Concatenation = strings.Contains(s.KeyType.Name, " . ")
		l.sets = append(l.sets, &s)
		l.byName[setKey(&s)] = &s
	}
}

// setKey is unique among the sets of both tables.
func setKey(s *nftables.Set) string { return string(s.Table.Family) + s.Name }

// chain adds a chain, with a hook unless it is only called by others.
func (l *layout) chain(t *nftables.Table, name string, hook *nftables.ChainHook, priority *nftables.ChainPriority) *nftables.Chain {
	c := &nftables.Chain{Table: t, Name: name}
	if hook != nil {
		c.Type, c.Hooknum, c.Priority = nftables.ChainTypeFilter, hook, priority
	}
	l.chains = append(l.chains, c)
	return c
}

// rule adds a rule that consists of parts.
func (l *layout) rule(c *nftables.Chain, parts ...[]expr.Any) {
	l.rules = append(l.rules, &nftables.Rule{Table: c.Table, Chain: c, Exprs: slices.Concat(parts...)})
}

// set returns a set of a table.
func (l *layout) set(t *nftables.Table, name string) *nftables.Set {
	return l.byName[string(t.Family)+name]
}

// read lists the existing elements, and the chains of destinations.
func (l *layout) read(c *nftables.Conn) error {
	for _, t := range []*nftables.Table{l.bridge, l.inet} {
		if err := l.readSets(c, t); err != nil {
			return err
		}
	}
	chains, err := c.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return fmt.Errorf("list nftables chains: %w", err)
	}
	for _, ch := range chains {
		if ch.Table.Name == l.inet.Name && strings.HasPrefix(ch.Name, chainEgress) {
			l.egress = append(l.egress, ch.Name)
		}
	}
	return nil
}

func (l *layout) readSets(c *nftables.Conn, t *nftables.Table) error {
	found, err := hasTable(c, t)
	if err != nil || !found {
		return err
	}
	sets, err := c.GetSets(t)
	if err != nil {
		return fmt.Errorf("list the nftables sets of %s: %w", t.Name, err)
	}
	for _, have := range sets {
		s := l.set(t, have.Name)
		if s == nil {
			continue
		}
		if l.found[setKey(s)], err = c.GetSetElements(s); err != nil {
			return fmt.Errorf("list the nftables set %s: %w", s.Name, err)
		}
	}
	return nil
}

// write adds tables, sets and chains that do not exist, and replaces all rules but those of
// destinations.
func (l *layout) write(c *nftables.Conn) {
	c.AddTable(l.bridge)
	c.AddTable(l.inet)
	for _, s := range l.sets {
		// The connection only records what it sends, so there is no error without elements.
		_ = c.AddSet(s, nil)
	}
	for _, ch := range l.chains {
		c.AddChain(ch)
		c.FlushChain(ch)
	}
	for _, r := range l.rules {
		c.AddRule(r)
	}
}

// clear removes the selected elements, and the chains of destinations that they used.
func (l *layout) clear(c *nftables.Conn, remove func(*nftables.Set, nftables.SetElement) bool) error {
	kept := map[string]bool{}
	for _, s := range l.sets {
		var gone []nftables.SetElement
		for _, e := range l.found[setKey(s)] {
			if remove(s, e) {
				gone = append(gone, nftables.SetElement{Key: e.Key})
			} else if s.IsMap {
				kept[chainEgress+e.Comment] = true
			}
		}
		if len(gone) == 0 {
			continue
		}
		if err := c.SetDeleteElements(s, gone); err != nil {
			return err
		}
	}
	for _, name := range l.egress {
		if kept[name] {
			continue
		}
		chain := &nftables.Chain{Table: l.inet, Name: name}
		c.FlushChain(chain)
		c.DelChain(chain)
	}
	return nil
}

// keysOf returns the elements of an allocation by the name of the set.
func (l *layout) keysOf(a *Allocation) map[string][]nftables.SetElement {
	keys := map[string][]nftables.SetElement{}
	add := func(set string, parts ...[]byte) {
		keys[set] = append(keys[set], nftables.SetElement{Key: slices.Concat(parts...), Comment: a.ID})
	}
	port, mac := ifname(a.Port), slices.Concat(a.MAC, []byte{0, 0}) // keys are padded to 4 bytes
	add(setPorts, port)
	add(setMACs, a.MAC)
	add(setOwnMAC, port, mac)
	for _, addr := range a.Addresses {
		family := "4"
		if addr.Is6() {
			family = "6"
		}
		ip := addr.AsSlice()
		add(setAddr+family, ip)
		add(setOwn+family, port, ip)
		add(setSelf+family, ip, ip)
		if a.Limited {
			keys[setEgress+family] = append(keys[setEgress+family], nftables.SetElement{Key: ip, Comment: a.ID,
				VerdictData: &expr.Verdict{Kind: expr.VerdictJump, Chain: chainEgress + a.ID}})
		}
	}
	return keys
}
