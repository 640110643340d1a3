package cpuexec

// firsts are the first series with a value of the groups of an aggregation: for each
// row one for each of its values.
type firsts struct{ of [][]int32 }
