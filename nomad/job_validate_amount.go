package nomad

// maxAmount is more than any machine has of anything, in MB, MHz or pieces. Sums and
// products of amounts below it fit in 64 bits: a job whose sum wraps around would fit
// everywhere.
const maxAmount = 1 << 31

// amount is something that a job asks for.
type amount struct {
	name string
	n    int
}

// validateAmounts refuses what is more than there can be.
func validateAmounts(f *faults, list ...amount) {
	for _, a := range list {
		if a.n > maxAmount {
			f.add("%s is %d: %d is the most", a.name, a.n, maxAmount)
		}
	}
}
