//go:build linux

package faults

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Loss is the share of the packets from a host that are silently dropped, as on a broken line.
type Loss struct {
	From    netip.Addr
	Percent int // 1 to 100
}

// sourceOffset is the offset of the source address in an IPv4 header.
const sourceOffset = 12

// Lose makes the host drop packets from others; without arguments it drops none. It atomically
// replaces the previous setting.
func (h *Host) Lose(losses ...Loss) error {
	c, err := nftables.New(nftables.WithNetNSFd(int(h.room.ns.Fd())))
	if err != nil {
		return fmt.Errorf("open netfilter of %s: %w", h.Addr, err)
	}
	table := &nftables.Table{Name: "faults", Family: nftables.TableFamilyIPv4}
	c.AddTable(table) // ensures that there is a table to delete
	c.DelTable(table)
	c.AddTable(table)
	chain := c.AddChain(&nftables.Chain{Name: "in", Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter})
	for _, l := range losses {
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: l.exprs()})
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("set losses of %s: %w", h.Addr, err)
	}
	return nil
}

// exprs returns the rule: from this host, at random, counted, dropped.
func (l Loss) exprs() []expr.Any {
	from := l.From.As4()
	rule := []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: sourceOffset, Len: uint32(len(from))},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: from[:]},
	}
	if l.Percent < 100 {
		rule = append(rule,
			&expr.Numgen{Register: 1, Modulus: 100, Type: unix.NFT_NG_RANDOM},
			&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 4, Size: 4},
			&expr.Cmp{Op: expr.CmpOpLt, Register: 1, Data: binaryutil.BigEndian.PutUint32(uint32(l.Percent))})
	}
	return append(rule, &expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop})
}

// Lost returns the number of packets dropped since Lose.
func (h *Host) Lost() (packets uint64, err error) {
	c, err := nftables.New(nftables.WithNetNSFd(int(h.room.ns.Fd())))
	if err != nil {
		return 0, err
	}
	table := &nftables.Table{Name: "faults", Family: nftables.TableFamilyIPv4}
	rules, err := c.GetRules(table, &nftables.Chain{Name: "in", Table: table})
	if err != nil {
		return 0, fmt.Errorf("count losses of %s: %w", h.Addr, err)
	}
	for _, r := range rules {
		for _, e := range r.Exprs {
			if count, ok := e.(*expr.Counter); ok {
				packets += count.Packets
			}
		}
	}
	return packets, nil
}
