package jobrules

// maxAmount exceeds the capacity of any machine, in MB, MHz or units. Sums and products of smaller amounts fit
// in 64 bits. A job whose sum overflowed would fit on every node.
const maxAmount = 1 << 31

// amount is a quantity that a job requests.
type amount struct {
	name string
	n    int
}

// validateAmounts rejects amounts above maxAmount.
func validateAmounts(f *faults, list ...amount) {
	for _, a := range list {
		if a.n > maxAmount {
			f.add("%s is %d: the limit is %d", a.name, a.n, maxAmount)
		}
	}
}
