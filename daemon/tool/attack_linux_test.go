package tool
func attack(string, []string) {}
