//! Sorts and groups a table again and again: `rusqlite-queries [QUERIES]`.

use rusqlite::{Connection, Result};

/// One query; the number of groups and their sum.
#[inline(never)]
fn query(connection: &Connection, number: i64) -> Result<(i64, i64)> {
    let mut statement = connection.prepare_cached(
        "SELECT count(*), sum(n) FROM (SELECT name, count(*) AS n FROM rows WHERE id % 7 <> ?1 % 7 \
         GROUP BY name ORDER BY n DESC, name)",
    )?;
    statement.query_row([number], |row| Ok((row.get(0)?, row.get(1)?)))
}

fn main() -> Result<()> {
    let queries = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100);
    let mut connection = Connection::open_in_memory()?;
    connection.execute("CREATE TABLE rows(id INTEGER PRIMARY KEY, name TEXT)", [])?;
    let all = connection.transaction()?;
    for id in 0..20_000_i64 {
        all.execute("INSERT INTO rows VALUES (?1, ?2)", (id, format!("name {}", id * 7919 % 1009)))?;
    }
    all.commit()?;
    let mut total = 0;
    for number in 0..queries {
        let (groups, sum) = query(&connection, number)?;
        total += groups + sum;
    }
    println!("{total}");
    Ok(())
}
