package csi

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/open-nomad/open-nomad/internal/untrusted"
)

// The fields of the condition of a volume, which version 1.13 of the specification has removed. Plugins of earlier versions
// still send it in the lists of volumes.
const (
	statusCondition   = 2 // of VolumeStatus
	conditionAbnormal = 1
	conditionMessage  = 2
)

// condition returns the condition of a volume from the unknown fields of its status.
func condition(unknown []byte) (abnormal bool, text string) {
	eachField(unknown, func(number protowire.Number, value []byte, _ uint64) {
		if number != statusCondition {
			return
		}
		eachField(value, func(number protowire.Number, value []byte, n uint64) {
			switch number {
			case conditionAbnormal:
				abnormal = n != 0
			case conditionMessage:
				text = string(value)
			}
		})
	})
	return abnormal, untrusted.Line(text, maxText)
}

// eachField calls visit for each field of an encoded message that has bytes or a number. It ends at the first damaged field.
func eachField(raw []byte, visit func(number protowire.Number, value []byte, n uint64)) {
	for len(raw) > 0 {
		number, wire, size := protowire.ConsumeTag(raw)
		if size < 0 {
			return
		}
		raw = raw[size:]
		switch wire {
		case protowire.BytesType:
			value, size := protowire.ConsumeBytes(raw)
			if size < 0 {
				return
			}
			visit(number, value, 0)
			raw = raw[size:]
		case protowire.VarintType:
			n, size := protowire.ConsumeVarint(raw)
			if size < 0 {
				return
			}
			visit(number, nil, n)
			raw = raw[size:]
		default:
			if size = protowire.ConsumeFieldValue(number, wire, raw); size < 0 {
				return
			}
			raw = raw[size:]
		}
	}
}
